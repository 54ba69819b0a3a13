/* SPDX-License-Identifier: Apache-2.0 */
/* The public headers in strict C++17, used as a trainer would; linked against the shared library. */
#include <diverge/macros.h>

int main()
{
    diverge_options options = DIVERGE_OPTIONS_INIT;
    diverge_session *session = nullptr;
    options.wait_ms = DIVERGE_NO_WAIT;
    if (diverge_session_open(&options, &session) != DIVERGE_ECLOSED) // DIVERGE_DISABLE is set
        return 1;
    diverge_lane *lane = diverge_lane_open(session, "main");
    const float x[2] = {1, 2};
    const double y[1] = {3};
    int turns = 0;
    DIVERGE_OP_WITH(lane, "mm", nullptr, "alpha=1")
    {
        diverge_input_f32(lane, 0, x, 1, DIVERGE_SIZES(2));
        diverge_output_f64(lane, 0, y, 1, DIVERGE_SIZES(1));
        turns++;
    }
    diverge_grad_absent(lane, "w");
    diverge_scalar(lane, DIVERGE_NAME_LR, 0.1);
    return turns != 1 || diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE) != DIVERGE_ECLOSED;
}
