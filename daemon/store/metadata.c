/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store/metadata.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A key that ends with '.' or '_' stands for all keys that begin with it; the longest match wins.
 */
static const struct {
    const char *key;
    enum metadata_class class_;
} table[] = {
    /* what computes */
    {"version.", METADATA_CAUSE},
    {"library.", METADATA_CAUSE},
    {"package.", METADATA_CAUSE},
    {"python", METADATA_CAUSE},
    {"python.", METADATA_CAUSE},
    {"torch.", METADATA_CAUSE},
    {"tensorflow.", METADATA_CAUSE},
    {"keras.", METADATA_CAUSE},
    {"numpy.", METADATA_CAUSE},
    {"framework", METADATA_CAUSE},
    {"compiler", METADATA_CAUSE},
    {"libc", METADATA_CAUSE},
    {"driver", METADATA_CAUSE},
    {"driver.", METADATA_CAUSE},
    {"cuda.", METADATA_CAUSE},
    {"cudnn.", METADATA_CAUSE},
    {"nccl.", METADATA_CAUSE},
    {"rocm.", METADATA_CAUSE},
    {"device", METADATA_CAUSE},
    {"device.", METADATA_CAUSE},
    {"device_", METADATA_CAUSE},
    {"gpu.", METADATA_CAUSE},
    {"cpu", METADATA_CAUSE},
    {"cpu.", METADATA_CAUSE},
    {"cpu_", METADATA_CAUSE},
    {"machine", METADATA_CAUSE},
    {"os", METADATA_CAUSE},
    {"os.", METADATA_CAUSE},
    {"kernel", METADATA_CAUSE},
    {"kernel.", METADATA_CAUSE},
    {"program", METADATA_CAUSE},
    {"program.", METADATA_CAUSE},
    {"exe_digest", METADATA_CAUSE},
    {"script", METADATA_CAUSE},
    {"script_digest", METADATA_CAUSE},
    {"argv", METADATA_CAUSE},
    {"argv.", METADATA_CAUSE},
    {"git.", METADATA_CAUSE},
    {"env.", METADATA_CAUSE},
    /* how it computes */
    {"threads", METADATA_CAUSE},
    {"threads.", METADATA_CAUSE},
    {"num_threads", METADATA_CAUSE},
    {"num_interop_threads", METADATA_CAUSE},
    {"num_workers", METADATA_CAUSE},
    {"flag.", METADATA_CAUSE},
    {"backend.", METADATA_CAUSE},
    {"determinism.", METADATA_CAUSE},
    {"deterministic", METADATA_CAUSE},
    {"precision", METADATA_CAUSE},
    {"precision.", METADATA_CAUSE},
    {"tf32", METADATA_CAUSE},
    {"dtype", METADATA_CAUSE},
    {"autocast", METADATA_CAUSE},
    {"compile", METADATA_CAUSE},
    {"compile.", METADATA_CAUSE},
    {"seed", METADATA_CAUSE},
    {"seed.", METADATA_CAUSE},
    {"seed_", METADATA_CAUSE},
    {"world", METADATA_CAUSE},
    {"world_size", METADATA_CAUSE},
    {"parallel.", METADATA_CAUSE},
    {"config.", METADATA_CAUSE},
    {"hyperparameter.", METADATA_CAUSE},
    {"batch_size", METADATA_CAUSE},
    {"dataset", METADATA_CAUSE},
    {"dataset.", METADATA_CAUSE},
    /* where */
    {"host", METADATA_CONTEXT},
    {"host.", METADATA_CONTEXT},
    {"hostname", METADATA_CONTEXT},
    {"user", METADATA_CONTEXT},
    {"cwd", METADATA_CONTEXT},
    {"path", METADATA_CONTEXT},
    {"path.", METADATA_CONTEXT},
    {"exe", METADATA_CONTEXT},
    {"git.path", METADATA_CONTEXT},
    {"env.HOME", METADATA_CONTEXT},
    {"env.PATH", METADATA_CONTEXT},
    {"env.PWD", METADATA_CONTEXT},
    {"env.VIRTUAL_ENV", METADATA_CONTEXT},
    {"env.CONDA_PREFIX", METADATA_CONTEXT},
    {"device.serial", METADATA_CONTEXT},
    {"device.uuid", METADATA_CONTEXT},
    {"client", METADATA_CONTEXT},
    {"note", METADATA_CONTEXT},
    {"tag.", METADATA_CONTEXT},
    /* never the same twice */
    {"pid", METADATA_VOLATILE},
    {"ppid", METADATA_VOLATILE},
    {"uid", METADATA_CONTEXT},
    {"time", METADATA_VOLATILE},
    {"time.", METADATA_VOLATILE},
    {"started", METADATA_VOLATILE},
    {"start_time", METADATA_VOLATILE},
    {"uptime", METADATA_VOLATILE},
    {"port", METADATA_VOLATILE},
    {"job.", METADATA_VOLATILE},
    {"env.MASTER_PORT", METADATA_VOLATILE},
    {"env.SLURM_JOB_ID", METADATA_VOLATILE},
};

enum metadata_class metadata_classify(const char *key)
{
    enum metadata_class class_ = METADATA_CONTEXT;
    size_t longest = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t size = strlen(table[i].key);
        char end = table[i].key[size - 1];
        bool matches = end == '.' || end == '_' ? strncmp(key, table[i].key, size) == 0
                                                : strcmp(key, table[i].key) == 0;
        if (matches && size > longest) {
            longest = size;
            class_ = table[i].class_;
        }
    }
    return class_;
}

const char *metadata_class_name(enum metadata_class class_)
{
    static const char *const names[] = {
        [METADATA_CAUSE] = "cause",
        [METADATA_CONTEXT] = "context",
        [METADATA_VOLATILE] = "volatile",
    };
    return names[class_];
}
