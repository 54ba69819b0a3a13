/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that record something. What they share: the filter first, then one draft into the lane.
 */
#include <string.h>

#include <diverge/diverge.h>
#include <diverge/names.h>

#include "client/lib/lane.h"
#include "client/lib/session.h"
#include "client/lib/value.h"

static const uint8_t default_tiers[DIVERGE_ROLE_COUNT] = {
    [DIVERGE_ROLE_INPUT] = DIVERGE_TIER_OP,    [DIVERGE_ROLE_OUTPUT] = DIVERGE_TIER_OP,
    [DIVERGE_ROLE_PARAM] = DIVERGE_TIER_STEP,  [DIVERGE_ROLE_BUFFER] = DIVERGE_TIER_STEP,
    [DIVERGE_ROLE_GRAD] = DIVERGE_TIER_STEP,   [DIVERGE_ROLE_OPTSTATE] = DIVERGE_TIER_STEP,
    [DIVERGE_ROLE_BATCH] = DIVERGE_TIER_PULSE, [DIVERGE_ROLE_RNG] = DIVERGE_TIER_EVIDENCE,
    [DIVERGE_ROLE_LOSS] = DIVERGE_TIER_PULSE,  [DIVERGE_ROLE_SCALAR] = DIVERGE_TIER_PULSE,
    [DIVERGE_ROLE_ATTR] = DIVERGE_TIER_OP,     [DIVERGE_ROLE_COLLECTIVE] = DIVERGE_TIER_OP,
};

static bool in_op(const struct diverge_lane *lane)
{
    return atomic_load_explicit(&lane->depth, memory_order_relaxed) != 0;
}

/* The tier of an observation. Valid ones only. */
static uint8_t tier_of(const struct diverge_lane *lane, const struct diverge_observation *what)
{
    if (what->flags & DIVERGE_FLAG_EVIDENCE)
        return DIVERGE_TIER_EVIDENCE;
    if (what->tier != DIVERGE_TIER_DEFAULT)
        return (uint8_t)what->tier;
    uint8_t tier = default_tiers[what->role];
    return tier == DIVERGE_TIER_OP && !in_op(lane) ? DIVERGE_TIER_LAYER : tier;
}

/* 1: take the record, of tier *ret_tier; 0: filtered out; negative: refused. */
static int admit(const struct diverge_lane *lane, const struct diverge_observation *what,
                 uint8_t *ret_tier)
{
    if (!lane || !dvg_session_is_open(lane->session))
        return DIVERGE_ECLOSED;
    if (!what || (unsigned)what->role >= DIVERGE_ROLE_COUNT || what->tier < DIVERGE_TIER_DEFAULT ||
        what->tier >= DIVERGE_TIER_COUNT || (what->flags & ~(uint32_t)DVG_FLAGS_KNOWN))
        return DIVERGE_EINVAL;
    *ret_tier = tier_of(lane, what);
    uint8_t wanted = atomic_load_explicit(&lane->session->wanted, memory_order_relaxed);
    return wanted >> *ret_tier & 1;
}

int diverge_record(struct diverge_lane *lane, const struct diverge_observation *what,
                   const struct diverge_tensor *tensor, diverge_ref_t *ret)
{
    uint8_t tier;
    int rc = admit(lane, what, &tier);
    if (rc <= 0)
        return rc;
    if (!tensor)
        return DIVERGE_EINVAL;
    struct dvg_value value;
    struct dvg_draft draft = {
        .what = what, .tensor = tensor, .kind = DIVERGE_KIND_TENSOR, .tier = tier, .value = &value};
    if (what->role == DIVERGE_ROLE_INPUT && what->inherit && tensor->storage) {
        draft.measure = true;
        return dvg_lane_take(lane, &draft, ret);
    }
    struct diverge_fingerprint fingerprint;
    rc = diverge_fingerprint(&tensor->view, lane->session->compute[tier], &fingerprint);
    if (rc)
        return rc;
    draft.fingerprint = &fingerprint;
    return dvg_lane_take(lane, &draft, ret);
}

int diverge_record_fingerprint(struct diverge_lane *lane, const struct diverge_observation *what,
                               const struct diverge_tensor *tensor,
                               const struct diverge_fingerprint *fingerprint, diverge_ref_t *ret)
{
    uint8_t tier;
    int rc = admit(lane, what, &tier);
    if (rc <= 0)
        return rc;
    if (!tensor || !fingerprint)
        return DIVERGE_EINVAL;
    struct dvg_value value;
    struct dvg_draft draft = {
        .what = what,
        .tensor = tensor,
        .kind = DIVERGE_KIND_TENSOR,
        .tier = tier,
        .fingerprint = fingerprint,
        .value = &value,
    };
    return dvg_lane_take(lane, &draft, ret);
}

/* A record that has no tensor. */
static int record_plain(struct diverge_lane *lane, const struct diverge_observation *what,
                        enum diverge_kind kind, uint64_t bits)
{
    uint8_t tier;
    int rc = admit(lane, what, &tier);
    if (rc <= 0)
        return rc;
    struct dvg_value value = {.value = bits};
    struct dvg_draft draft = {.what = what, .kind = kind, .tier = tier, .value = &value};
    return dvg_lane_take(lane, &draft, NULL);
}

int diverge_record_float(struct diverge_lane *lane, const struct diverge_observation *what,
                         double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return record_plain(lane, what, DIVERGE_KIND_FLOAT, bits);
}

int diverge_record_integer(struct diverge_lane *lane, const struct diverge_observation *what,
                           int64_t value)
{
    return record_plain(lane, what, DIVERGE_KIND_INTEGER, (uint64_t)value);
}

int diverge_record_absent(struct diverge_lane *lane, const struct diverge_observation *what)
{
    return record_plain(lane, what, DIVERGE_KIND_ABSENT, 0);
}

int diverge_record_bytes(struct diverge_lane *lane, const struct diverge_observation *what,
                         const void *bytes, size_t size)
{
    if (size > INT64_MAX)
        return DIVERGE_EINVAL;
    int64_t sizes[1] = {(int64_t)size};
    struct diverge_tensor tensor = {
        .view = {.data = bytes, .dtype = DIVERGE_OPAQUE, .ndim = 1, .sizes = sizes}};
    return diverge_record(lane, what, &tensor, NULL);
}

int diverge_counter(struct diverge_session *session, const char *name, int64_t value)
{
    if (!dvg_session_is_open(session))
        return DIVERGE_ECLOSED;
    if (!name || !*name)
        return DIVERGE_EINVAL;
    char full[256];
    size_t prefix = sizeof(DIVERGE_PREFIX_COUNTER) - 1;
    size_t size = strnlen(name, sizeof(full) - prefix);
    if (size == sizeof(full) - prefix)
        return DIVERGE_EINVAL;
    memcpy(full, DIVERGE_PREFIX_COUNTER, prefix);
    memcpy(full + prefix, name, size);
    /* Counters belong to the session; its first lane carries them. */
    pthread_mutex_lock(&session->mutex);
    struct diverge_lane *lane = session->n_lanes ? session->lanes[0] : NULL;
    pthread_mutex_unlock(&session->mutex);
    if (!lane)
        lane = diverge_lane_open(session, "main");
    if (!lane)
        return DIVERGE_ENOMEM;
    struct diverge_observation what = {
        .role = DIVERGE_ROLE_ATTR,
        .tier = DIVERGE_TIER_DEFAULT,
        .name = dvg_define_string(&session->define, full, prefix + size),
        .flags = DIVERGE_FLAG_EVIDENCE,
    };
    struct dvg_value bits = {.value = (uint64_t)value};
    struct dvg_draft draft = {
        .what = &what, .kind = DIVERGE_KIND_INTEGER, .tier = DIVERGE_TIER_EVIDENCE, .value = &bits};
    return dvg_lane_take_outside(lane, &draft);
}

int diverge_reserve(struct diverge_lane *lane, const struct diverge_observation *what,
                    const struct diverge_tensor *tensor, uint64_t *ret_token)
{
    uint8_t tier;
    int rc = admit(lane, what, &tier);
    if (rc < 0)
        return rc;
    if (!tensor || !ret_token)
        return DIVERGE_EINVAL;
    if (rc == 0) {
        *ret_token = DVG_TOKEN_FILTERED;
        return 0;
    }
    uint64_t token = dvg_deferred_take(&lane->session->deferred);
    if (!token)
        return dvg_lane_lose(lane, tier);
    struct dvg_value value = {0};
    diverge_ref_t ref = 0;
    struct dvg_draft draft = {
        .what = what,
        .tensor = tensor,
        .kind = DIVERGE_KIND_TENSOR,
        .tier = tier,
        .token = token,
        .value = &value,
    };
    rc = dvg_lane_take(lane, &draft, &ref);
    if (rc || !ref) { /* dropped, or volatile: nothing waits for a fingerprint */
        dvg_deferred_drop(&lane->session->deferred, token);
        if (rc)
            return rc;
        token = DVG_TOKEN_FILTERED;
    }
    *ret_token = token;
    return 0;
}

int diverge_complete(struct diverge_session *session, uint64_t token,
                     const struct diverge_fingerprint *fingerprint)
{
    if (!session ||
        atomic_load_explicit(&session->state, memory_order_relaxed) == DVG_SESSION_FORKED)
        return DIVERGE_ECLOSED;
    if (token == DVG_TOKEN_FILTERED)
        return 0;
    int rc = dvg_deferred_complete(&session->deferred, token, fingerprint);
    if (!rc)
        dvg_session_kick(session);
    return rc;
}

int diverge_forget(struct diverge_session *session, uint64_t storage)
{
    if (!dvg_session_is_open(session))
        return DIVERGE_ECLOSED;
    dvg_producers_forget(&session->producers, storage);
    return 0;
}
