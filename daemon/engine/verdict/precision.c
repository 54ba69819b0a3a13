/* SPDX-License-Identifier: Apache-2.0 */
/* Another floating-point format: a cast that is recorded, or an error that only a coarser format
 * makes. */
#include <math.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "daemon/engine/verdict/verdict.h"

enum { MAX_CALL = 64 };

/* ---- cast ----------------------------------------------------------------------------------- */

static bool is_cast(const struct trace_site *site)
{
    static const char *const words[] = {"cast", "_to_copy", NULL};
    return text_has(site->op, words) || strcmp(site->op, "aten::to") == 0 ||
           strcmp(site->op, "to") == 0;
}

/* The one-sided cast that made what `input` reads on its side; NULL: none. */
static const struct item *one_cast(const struct evidence *evidence, const struct item *input,
                                   int side)
{
    bool certain;
    const struct item *producer = evidence_producer(evidence, input, side, &certain);
    return producer && !evidence_is_pair(producer) && is_cast(item_site(evidence->view, producer))
               ? producer
               : NULL;
}

enum { MAX_CASTS = 8 };

/* A cast that only one side has and that made the input; of several in a row, the first. NULL:
 * none. */
static const struct item *cast_before(const struct evidence *evidence, const struct item *input)
{
    const struct item *inputs[MAX_CALL];
    for (int side = 0; side < SIDES; side++) {
        const struct item *cast = one_cast(evidence, input, side), *earlier = cast;
        for (int n = 0; earlier && n < MAX_CASTS; n++) {
            cast = earlier;
            earlier = view_call(evidence->view, cast, DIVERGE_ROLE_INPUT, inputs, MAX_CALL) == 1
                          ? one_cast(evidence, inputs[0], side)
                          : NULL;
        }
        if (cast)
            return cast;
    }
    return NULL;
}

/* The last one-sided cast before the first difference, in its lane. */
static const struct item *nearest_cast(const struct evidence *evidence)
{
    const struct view *view = evidence->view;
    const struct item *found = NULL;
    for (size_t i = 0; i < view->n_notes; i++) {
        const struct item *note = view->notes[i];
        if (is_cast(item_site(view, note)) && note->lane == evidence->first->lane &&
            note->position <= evidence->first->position &&
            (!found || note->position >= found->position))
            found = note;
    }
    return found;
}

static const struct item *find_cast(const struct evidence *evidence)
{
    const struct item *inputs[MAX_CALL];
    if (evidence->site->role == DIVERGE_ROLE_INPUT) {
        const struct item *cast = cast_before(evidence, evidence->first);
        if (cast)
            return cast;
    }
    size_t n = view_call(evidence->view, evidence->first, DIVERGE_ROLE_INPUT, inputs, MAX_CALL);
    for (size_t i = 0; i < n; i++) {
        const struct item *cast = cast_before(evidence, inputs[i]);
        if (cast)
            return cast;
    }
    return NULL;
}

static void name_cast(const struct evidence *evidence, const struct item *cast, struct ruling *ret)
{
    const struct view *view = evidence->view;
    int side = item_has(cast, SIDE_A) ? SIDE_A : SIDE_B;
    const char *text = side_argument(evidence->engine, side, item_argument(view, cast, side));
    ruling_evidence(evidence, ret, "%s, in %c only, converts to %s%s%.200s",
                    evidence_what(evidence, cast), side == SIDE_A ? 'A' : 'B',
                    diverge_dtype_name(item_type(view, cast, side)->dtype)
                        ? diverge_dtype_name(item_type(view, cast, side)->dtype)
                        : "another dtype",
                    text ? ": " : "", text ? text : "");
}

bool rule_precision(const struct evidence *evidence, struct ruling *ret)
{
    const struct item *first = evidence->first;
    if (!first || !evidence_is_pair(first))
        return false;
    const struct trace_type *a = item_type(evidence->view, first, SIDE_A);
    const struct trace_type *b = item_type(evidence->view, first, SIDE_B);
    bool differ = a->kind == DIVERGE_KIND_TENSOR && b->kind == DIVERGE_KIND_TENSOR &&
                  a->dtype != b->dtype && dtype_is_float(a->dtype) && dtype_is_float(b->dtype) &&
                  type_same_shape(a, b);
    const struct item *cast = find_cast(evidence);
    if (!differ && !cast)
        return false;
    ruling_set(ret, "precision", "cast", differ ? ENGINE_CERTAIN : ENGINE_LIKELY,
               "One run computes in another floating-point format from here on.");
    if (differ)
        ruling_evidence(evidence, ret, "%s: %s in A, %s in B", evidence_what(evidence, first),
                        diverge_dtype_name(a->dtype), diverge_dtype_name(b->dtype));
    if (!cast)
        cast = nearest_cast(evidence);
    if (cast)
        name_cast(evidence, cast, ret);
    ruling_next(evidence, ret, "compare autocast settings and default dtypes");
    return true;
}

/* ---- implicit ------------------------------------------------------------------------------- */

/* Relative errors that inputs rounded to a format make in what is summed up from them. */
#define BAND_LOW 5e-5 /* float16 and TF32 have 11 significant bits … */
#define BAND_BETWEEN 6e-4
#define BAND_HIGH 1e-2 /* … bfloat16 has 8 */

bool rule_implicit(const struct evidence *evidence, struct ruling *ret)
{
    static const char *const words[] = {"tf32", "precision", "autocast", "bf16",
                                        "fp16", "amp",       NULL};
    const struct engine_finding *finding = evidence->finding;
    if (!evidence->first || !evidence_inputs_equal(evidence) ||
        (evidence->site->flags & DIVERGE_FLAG_RANDOM) || dtype_epsilon(finding->a.dtype) == 0 ||
        dtype_epsilon(finding->a.dtype) > 0x1p-20)
        return false;
    const struct engine_environment *cause = environment_cause(evidence->answer, words);
    bool known = !isnan(finding->rel_l2);
    bool in_band = known && finding->rel_l2 >= BAND_LOW && finding->rel_l2 <= BAND_HIGH;
    if (known ? !in_band : !cause)
        return false;
    ruling_set(ret, "precision", "implicit", in_band && cause ? ENGINE_LIKELY : ENGINE_POSSIBLE,
               "One run computes inside this op in a coarser format than its tensors have.");
    if (in_band)
        ruling_evidence(evidence, ret, "the outputs are %.2g apart, as %s inside would make it",
                        finding->rel_l2,
                        finding->rel_l2 < BAND_BETWEEN ? "float16 or TF32" : "bfloat16");
    if (cause)
        ruling_evidence(evidence, ret, "%s", environment_text(evidence->engine, cause));
    ruling_next(evidence, ret, "compare the precision settings of both runs, TF32 among them");
    return true;
}
