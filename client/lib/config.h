/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's options, settled: what the caller gave, else the environment's, else the default.
 * Read once when the session opens, constant after that.
 */
#ifndef CLIENT_LIB_CONFIG_H
#define CLIENT_LIB_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <diverge/diverge.h>

enum {
    DVG_SOCKET_PATH_MAX =
        107, /* bytes, without the NUL; longer ones are cut by the kernel's struct */
    DVG_STEP_RANGES_MAX = 64,
    DVG_NAME_MAX = 127,
    DVG_SPEC_MAX = 1024,
};

struct dvg_step_range {
    uint64_t first;
    uint64_t last; /* included */
    uint64_t stride;
};

struct dvg_config {
    char name[DVG_NAME_MAX + 1];
    uint8_t run_id[16];
    uint32_t rank;
    uint32_t world;
    enum diverge_tier level;
    struct dvg_step_range steps[DVG_STEP_RANGES_MAX];
    uint32_t n_steps; /* 0: all */
    char socket_path[DVG_SOCKET_PATH_MAX + 1];
    char spool_dir[PATH_MAX];
    char recording[PATH_MAX]; /* "": none */
    char spec[DVG_SPEC_MAX + 1];
    uint64_t spool_bytes;
    size_t ring_bytes; /* 0: default a lane */
    int64_t wait_ns;
    uint32_t sketch; /* 0, 32 or 64 */
    uint32_t flags;  /* DIVERGE_OPEN_* */
};

/* Why options were refused, for a person. */
struct dvg_error {
    char text[PATH_MAX + 256];
    char passed_over[2048]; /* variables that hold nonsense, and why; "": none */
};

/*
 * ECLOSED: DIVERGE_DISABLE is set. EINVAL, EIO: *error says what is wrong. A DIVERGE_… variable
 * that cannot be read is passed over, which error->passed_over tells, but not DIVERGE_RUN_ID and
 * DIVERGE_RECORDING: what they should have named would be missed.
 */
int dvg_config_init(struct dvg_config *config, const struct diverge_options *options,
                    struct dvg_error *error);

/* Tiers to record in a segment, as bits. */
uint8_t dvg_config_wanted(const struct dvg_config *config, uint64_t segment);

/*
 * Whether `dir` can be trusted with a socket or a spool: a folder, no link, of this user or root,
 * that others cannot write. EPERM with *error; ENOTFOUND when there is none, made first when
 * `make`.
 */
int dvg_folder_check(const char *dir, bool make, struct dvg_error *error);

/* Random bytes; EIO when there are none. */
int dvg_random(void *bytes, size_t size);

#endif
