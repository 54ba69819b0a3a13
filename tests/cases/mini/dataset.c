/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/mini/dataset.h"

#include <stdio.h>

#include <diverge/names.h>

static bool read_sample(FILE *file, int64_t tokens[TOKENS], int64_t *label)
{
    for (int t = 0; t < TOKENS; t++)
        if (fscanf(file, "%ld", &tokens[t]) != 1)
            return false;
    return fscanf(file, "%ld", label) == 1;
}

bool dataset_load(struct dataset *dataset, const char *path, bool reverse)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool ok = true;
    for (int i = 0; i < SAMPLES && ok; i++) {
        int at = reverse ? SAMPLES - 1 - i : i;
        ok = read_sample(file, dataset->tokens[at], &dataset->labels[at]);
    }
    fclose(file);
    return ok;
}

void dataset_batch(const struct dataset *dataset, uint64_t seed, uint64_t step, struct batch *batch)
{
    int order[SAMPLES];
    struct generator private;
    generator_seed(&private, seed * 1000 + step / STEPS_PER_EPOCH);
    generator_permutation(&private, SAMPLES, order);
    for (int b = 0; b < BATCH; b++) {
        int sample = order[(step % STEPS_PER_EPOCH) * BATCH + (uint64_t)b];
        batch->ids[b] = sample;
        batch->labels[b] = dataset->labels[sample];
        for (int t = 0; t < TOKENS; t++)
            batch->tokens[b * TOKENS + t] = dataset->tokens[sample][t];
    }
}

static uint64_t row_checksum(const int64_t *tokens)
{
    return diverge_checksum_bytes(tokens, TOKENS * sizeof(int64_t), 0);
}

static void record_integer(struct diverge_session *session, struct diverge_lane *lane,
                           const char *name, int64_t value)
{
    struct diverge_observation what = {.role = DIVERGE_ROLE_BATCH,
                                       .tier = DIVERGE_TIER_DEFAULT,
                                       .name = diverge_name(session, name)};
    diverge_record_integer(lane, &what, value);
}

void dataset_record(const struct dataset *dataset, struct diverge_session *session,
                    struct diverge_lane *lane, const struct batch *batch, uint64_t step)
{
    diverge_phase(lane, DIVERGE_PHASE_DATA);
    if (step % STEPS_PER_EPOCH == 0) {
        uint64_t set = 0;
        for (int i = 0; i < SAMPLES; i++)
            set += diverge_mix64(row_checksum(dataset->tokens[i]));
        record_integer(session, lane, DIVERGE_NAME_EPOCH_SET, (int64_t)set);
    }
    diverge_batch_ids(lane, batch->ids, BATCH);
    diverge_batch(lane, "tokens",
                  &(struct diverge_view){.data = batch->tokens,
                                         .dtype = DIVERGE_I64,
                                         .ndim = 2,
                                         .sizes = (int64_t[]){BATCH, TOKENS}});
    diverge_batch(
        lane, "labels",
        &(struct diverge_view){
            .data = batch->labels, .dtype = DIVERGE_I64, .ndim = 1, .sizes = (int64_t[]){BATCH}});
}
