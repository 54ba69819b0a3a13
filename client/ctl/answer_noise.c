/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says of noise, for people and for programs. */
#include <math.h>
#include <string.h>

#include "client/ctl/answer_noise.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"

enum { POINTS_SHOWN = 6 };

/* ---- for people ----------------------------------------------------------------------------- */

static const char *names(const char *const *list, size_t count)
{
    const char *text = "";

    for (size_t i = 0; i < count; i++)
        text = mem_printf("%s%s%s", text, i ? ", " : "", text_escape(list[i]));
    return text;
}

/* "relative distance at least 7.1e-06, up to 1e-05 is noise; the size of …" */
static const char *judged(const struct engine_judgement *judgement,
                          const struct engine_finding *finding)
{
    if (!isfinite(judgement->distance))
        return strcmp(judgement->why, "beyond") != 0 ? judgement->why : "not finite";
    const char *how = finding->a.kind != DIVERGE_KIND_TENSOR ? ""
                      : judgement->sketched                  ? "about "
                                                             : "at least ";
    const char *text = mem_printf("relative distance %s%.2g", how, judgement->distance);

    if (isfinite(judgement->allowed))
        text = mem_printf("%s, up to %.2g is noise", text, judgement->allowed);
    return judgement->band ? mem_printf("%s; the size of %s", text, judgement->band) : text;
}

/* What noise was known from. */
static const char *known_from(const struct engine_noise *noise, const struct answer_runs *runs)
{
    const char *text = "";

    if (noise->repeats)
        text = mem_printf("%s of A (%s), margin x%g", text_things(noise->repeats, "repeat"),
                          names(runs->repeats, runs->n_repeats), noise->margin);
    if (runs->tolerance > 0)
        text = mem_printf("%s%stolerance %g", text, *text ? ", " : "", runs->tolerance);
    return text;
}

static const char *verdict(const struct engine_answer *answer)
{
    const struct engine_noise *noise = &answer->noise;
    const char *through = text_segment(noise->through);

    if (answer->beyond_noise && answer->beyond_noise == answer->first)
        return mem_printf("This difference is beyond noise: %s.",
                          judged(&noise->beyond, answer->beyond_noise));
    const char *first = mem_printf("This difference is within noise (%s): %s.", noise->first.why,
                                   judged(&noise->first, answer->first));

    if (answer->beyond_noise)
        return mem_printf("%s The first beyond noise is at %s: %s.", first,
                          text_segment(answer->beyond_noise->segment),
                          judged(&noise->beyond, answer->beyond_noise));
    return mem_printf("%s Nothing is beyond noise through %s%s.", first, through,
                      noise->complete ? "" : "; the rest was not judged (--noise judges all)");
}

static const char *growth(const struct engine_noise *noise)
{
    const char *text = "";
    size_t shown = noise->n_growth < POINTS_SHOWN ? noise->n_growth : POINTS_SHOWN;

    for (size_t i = 0; i < shown; i++) {
        size_t at = shown > 1 ? i * (noise->n_growth - 1) / (shown - 1) : 0;
        const struct engine_growth *point = &noise->growth[at];

        text = mem_printf("%s%sboundary %llu: %.2g", text, i ? ", " : "parameters differ by ",
                          (unsigned long long)point->boundary, point->rel_l2);
        if (isfinite(point->noise))
            text = mem_printf("%s (repeats %.2g)", text, point->noise);
    }
    return text;
}

/* Whether noise could be what the first difference is: numbers that differ. */
static bool may_be_noise(const struct engine_finding *finding)
{
    const struct engine_side *a = &finding->a;

    return a->present && finding->b.present &&
           (a->kind == DIVERGE_KIND_FLOAT ||
            (a->kind == DIVERGE_KIND_TENSOR &&
             (a->dtype == DIVERGE_F16 || a->dtype == DIVERGE_BF16 || a->dtype == DIVERGE_F32 ||
              a->dtype == DIVERGE_F64)));
}

size_t answer_noise_lines(const struct engine_answer *answer, const struct answer_runs *runs,
                          struct answer_line ret[ANSWER_NOISE_LINES])
{
    const struct engine_noise *noise = &answer->noise;
    size_t count = 0;

    if (!answer->first)
        return 0;
    if (!noise->known) {
        if (!may_be_noise(answer->first))
            return 0;
        ret[0] = (struct answer_line){
            "Noise", mem_printf("unknown; run: divergectl run --like %s -- …", runs->a_said)};
        return 1;
    }
    ret[count++] = (struct answer_line){"Noise", known_from(noise, runs)};
    ret[count++] = (struct answer_line){"", verdict(answer)};
    if (noise->statistics)
        ret[count++] = (struct answer_line){
            "", "Judged by statistics, which tell the least distance; DIVERGE_SKETCH=64 tells it."};
    if (noise->n_growth)
        ret[count++] = (struct answer_line){"Growth", growth(noise)};
    return count;
}

/* ---- for programs --------------------------------------------------------------------------- */

static void emit_judgement(struct emit *emit, const char *key,
                           const struct engine_judgement *judgement)
{
    if (!judgement->why) {
        emit_null(emit, key);
        return;
    }
    emit_object(emit, key);
    emit_number(emit, "distance", judgement->distance);
    emit_number(emit, "allowed", judgement->allowed);
    emit_string(emit, "from", judgement->sketched ? "sketches" : "statistics");
    emit_string(emit, "why", judgement->why);
    emit_string(emit, "band", judgement->band);
    emit_object_end(emit);
}

static void emit_names(struct emit *emit, const char *key, const char *const *list, size_t count)
{
    emit_array(emit, key);
    for (size_t i = 0; i < count; i++)
        emit_string(emit, NULL, list[i]);
    emit_array_end(emit);
}

void answer_emit_noise(struct emit *emit, const struct engine_answer *answer,
                       const struct answer_runs *runs)
{
    const struct engine_noise *noise = &answer->noise;

    if (!noise->known) {
        emit_null(emit, "noise");
        return;
    }
    emit_object(emit, "noise");
    emit_names(emit, "repeats", runs->repeats, runs->n_repeats);
    emit_names(emit, "repeats_b", runs->repeats_b, runs->n_repeats_b);
    emit_number(emit, "tolerance", runs->tolerance);
    emit_number(emit, "margin", noise->margin);
    emit_u64(emit, "through", noise->through);
    emit_bool(emit, "complete", noise->complete);
    emit_u64(emit, "records", noise->records);
    emit_u64(emit, "noisy", noise->noisy);
    emit_bool(emit, "statistics", noise->statistics);
    emit_judgement(emit, "first", &noise->first);
    emit_judgement(emit, "beyond", &noise->beyond);
    emit_array(emit, "growth");
    for (size_t i = 0; i < noise->n_growth; i++) {
        emit_object(emit, NULL);
        emit_u64(emit, "boundary", noise->growth[i].boundary);
        emit_number(emit, "rel_l2", noise->growth[i].rel_l2);
        emit_number(emit, "noise", noise->growth[i].noise);
        emit_string(emit, "from", noise->growth[i].sketched ? "sketches" : "statistics");
        emit_object_end(emit);
    }
    emit_array_end(emit);
    emit_object_end(emit);
}
