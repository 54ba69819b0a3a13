/* SPDX-License-Identifier: Apache-2.0 */
/* Case c2: pairs of values that weak digests take for equal. `traps N a` and `traps N b` record the
 * two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <diverge/diverge.h>

enum { COUNT = 64, ROWS = 8 };

static float values[COUNT];

static void fill(void)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i * 37 % 101 - 50) / 16.0f;
}

static void add_ulps(float *value, int ulps)
{
    int32_t bits;
    memcpy(&bits, value, sizeof(bits));
    bits += ulps;
    memcpy(value, &bits, sizeof(bits));
}

static void set_bits(float *value, uint32_t bits)
{
    memcpy(value, &bits, sizeof(bits));
}

static void permute_rows(void)
{
    float row[ROWS];
    memcpy(row, values, sizeof(row));
    memcpy(values, values + ROWS, sizeof(row));
    memcpy(values + ROWS, row, sizeof(row));
}

static void record(struct diverge_session *session, struct diverge_lane *lane, const void *data,
                   enum diverge_dtype dtype, int32_t ndim, const int64_t *sizes)
{
    struct diverge_observation what = {.role = DIVERGE_ROLE_PARAM,
                                       .tier = DIVERGE_TIER_DEFAULT,
                                       .name = diverge_name(session, "trap")};
    struct diverge_tensor tensor = {
        .view = {.data = data, .dtype = dtype, .ndim = ndim, .sizes = sizes}};
    diverge_record(lane, &what, &tensor, NULL);
}

static void record_flat(struct diverge_session *session, struct diverge_lane *lane, int64_t count)
{
    record(session, lane, values, DIVERGE_F32, 1, &count);
}

static void record_f64(struct diverge_session *session, struct diverge_lane *lane)
{
    double wide[COUNT];
    for (int i = 0; i < COUNT; i++)
        wide[i] = (double)values[i];
    record(session, lane, wide, DIVERGE_F64, 1, (int64_t[]){COUNT});
}

/* Changes `values` to side b of traps 0..4; false for the others. */
static bool change(int trap)
{
    switch (trap) {
    case 0:
        permute_rows();
        return true;
    case 1:
        values[1] = -values[1];
        values[9] = -values[9];
        return true;
    case 2:
        add_ulps(&values[3], 1);
        add_ulps(&values[4], -2);
        add_ulps(&values[5], 1);
        return true;
    case 3:
        set_bits(&values[0], UINT32_C(0x80000000));
        return true;
    case 4:
        set_bits(&values[0], UINT32_C(0x7fc00001));
        return true;
    default:
        return false;
    }
}

static void trap(struct diverge_session *session, struct diverge_lane *lane, int trap, bool b)
{
    if (trap == 3)
        set_bits(&values[0], 0);
    if (trap == 4)
        set_bits(&values[0], UINT32_C(0x7fc00000));
    if (trap == 7)
        memset(values, 0, sizeof(values));
    if (b && trap == 5)
        record(session, lane, values, DIVERGE_F32, 2, (int64_t[]){ROWS, COUNT / ROWS});
    else if (b && trap == 6)
        record_f64(session, lane);
    else if (b && trap == 7)
        record_flat(session, lane, COUNT / 2);
    else if (!b || change(trap))
        record_flat(session, lane, COUNT);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 64;
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    struct diverge_session *session = NULL;
    diverge_session_open(&options, &session);
    struct diverge_lane *lane = diverge_lane_open(session, "main");
    fill();
    diverge_boundary(session, 0);
    trap(session, lane, atoi(argv[1]), strcmp(argv[2], "b") == 0);
    return diverge_session_close(session, DIVERGE_OUTCOME_COMPLETE) == 0 ? 0 : 1;
}
