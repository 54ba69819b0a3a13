/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client/ctl/change.h"
#include "client/ctl/cmd.h"
#include "client/ctl/commands.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

static int run(int argc, const char *const *argv)
{
    struct store_gc gc = {0};
    int status = change_gc(&gc);

    (void)argc;
    (void)argv;
    if (status)
        return status;
    if (ctl.json) {
        struct emit emit;

        emit_begin(&emit, "gc");
        emit_u64(&emit, "bytes_before", gc.bytes_before);
        emit_u64(&emit, "bytes_after", gc.bytes_after);
        emit_u64(&emit, "chunks_removed", gc.chunks_removed);
        emit_u64(&emit, "segments_thinned", gc.segments_thinned);
        emit_print(&emit);
        return EX_OK;
    }
    text_wrap(stdout, "", 0,
              mem_printf("%s removed, %s thinned; the store went from %s to %s.",
                         text_things(gc.chunks_removed, "chunk"),
                         text_things(gc.segments_thinned, "segment"), text_bytes(gc.bytes_before),
                         text_bytes(gc.bytes_after)),
              text_width());
    return EX_OK;
}

static const char *const description[] = {
    "Removes what no run refers to any more. Over the store's cap (the daemon's --retention-bytes) "
    "it also thins the oldest detail, ops first, then layers: pinned runs and the surroundings of "
    "known differences stay, and so does what tells whether two runs are equal. The daemon does "
    "this by itself too.",
    NULL,
};

const struct cmd cmd_gc = {
    .name = "gc",
    .group = CMD_GROUP_KEEP,
    .summary = "Give back what nothing refers to, and thin old detail",
    .synopsis = "",
    .description = description,
    .json = true,
    .run = run,
};
