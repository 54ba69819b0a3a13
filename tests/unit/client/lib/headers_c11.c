/* SPDX-License-Identifier: Apache-2.0 */
/* The public headers in strict C11, used as a trainer would; linked against the shared library. */
#include <diverge/macros.h>

int main(void)
{
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    struct diverge_session *session = NULL;
    options.wait_ms = DIVERGE_NO_WAIT;
    if (diverge_session_open(&options, &session) != DIVERGE_ECLOSED) /* DIVERGE_DISABLE is set */
        return 1;
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    const float x[2] = {1, 2};
    int turns = 0;
    DIVERGE_OP(lane, "mm", "fc1")
    {
        diverge_input_f32(lane, 0, x, 1, DIVERGE_SIZES(2));
        if (turns++)
            continue;
        diverge_output_f32(lane, 0, x, 1, DIVERGE_SIZES(2));
    }
    diverge_param_f32(lane, "w", x, 1, DIVERGE_SIZES(2));
    diverge_rng(lane, "global", 0, x, sizeof(x));
    diverge_loss(lane, 1.0);
    return turns != 1 ||
           diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE) != DIVERGE_ECLOSED;
}
