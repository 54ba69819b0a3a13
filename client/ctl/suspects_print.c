/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/suspects_print.h"

#include <string.h>

#include "client/ctl/answer.h"
#include "client/ctl/emit.h"
#include "client/ctl/mem.h"
#include "client/ctl/table.h"
#include "client/ctl/text.h"
#include "client/wire/message.h"
#include "daemon/engine/known_ops.h"

/* ---- outcome -------------------------------------------------------------------------------- */

size_t suspects_reasons(const struct mining_result *result, const char *reasons[SUSPECTS_REASONS])
{
    size_t n = 0;

    if (result->incomplete)
        reasons[n++] =
            mem_printf("%s incomplete: records were dropped, or it was never ended",
                       result->incomplete == 1
                           ? "1 step is"
                           : mem_printf("%s are", text_things(result->incomplete, "step")));
    if (result->pruned)
        reasons[n++] = mem_printf("the ops of %s were removed by retention",
                                  text_things(result->pruned, "step"));
    if (result->over_cap)
        reasons[n++] =
            mem_printf("%s had no room in memory and were not looked at: name fewer runs",
                       text_things(result->over_cap, "call"));
    if (!result->repeated)
        reasons[n++] =
            result->calls ? "no op was called twice with the same arguments and inputs"
                          : "there are no calls to look at: divergectl run --level op records them";
    return n;
}

enum suspects_outcome suspects_outcome(const struct mining_result *result)
{
    const char *reasons[SUSPECTS_REASONS];

    if (result->n_suspects)
        return SUSPECTS_FOUND;
    return suspects_reasons(result, reasons) ? SUSPECTS_UNKNOWN : SUSPECTS_NONE;
}

static const struct known_op *advice(const struct mining_suspect *suspect)
{
    const char *library = suspect->has_example ? known_op_library(suspect->example[0].run) : NULL;

    return known_op_advice(suspect->op, library);
}

static bool is_given(const char *field)
{
    return strcmp(field, "-") != 0;
}

/* The record's value and type, as every answer shows them. */
static struct engine_side side_of(const struct mining_place *place)
{
    return (struct engine_side){.present = true,
                                .kind = place->kind,
                                .dtype = place->dtype,
                                .ndim = place->ndim,
                                .sizes = place->sizes,
                                .value = place->value,
                                .argument = place->argument,
                                .argument_text = place->arguments,
                                .source = place->source,
                                .state = place->state & (uint8_t)~DVG_STATE_STATS};
}

/* ---- text ----------------------------------------------------------------------------------- */

static const char *percent(double share)
{
    return mem_printf("%.*f", share > 0 && share < 0.0995 ? 1 : 0, share * 100);
}

static const char *where_text(const struct mining_suspect *suspect)
{
    switch (suspect->blame) {
    case MINING_ONE_PLACE:
        return "one place";
    case MINING_ANYWHERE:
        return "anywhere";
    case MINING_FOLLOWS:
        return "follows the place";
    case MINING_ALONE:
        return mem_printf("%s alone", text_escape(suspect->culprit));
    case MINING_UNDECIDED:
        return "undecided";
    }
    return "";
}

static void print_table(const struct mining_result *result)
{
    struct table table;

    table_begin(&table);
    table_column(&table, "OP", TABLE_LEFT);
    table_column(&table, "DIFFERING", TABLE_RIGHT);
    table_column(&table, "OF", TABLE_RIGHT);
    table_column(&table, "% (95 %)", TABLE_RIGHT);
    table_column(&table, "SAME CAUSES", TABLE_RIGHT);
    table_column(&table, "CALLS", TABLE_RIGHT);
    table_column(&table, "WHERE", TABLE_LEFT);
    for (size_t i = 0; i < result->n_suspects; i++) {
        const struct mining_suspect *suspect = &result->suspects[i];

        table_row(&table);
        table_cell(&table, text_escape(suspect->op));
        table_cell(&table, text_count(suspect->differing));
        table_cell(&table, text_count(suspect->repeated));
        table_cell(&table, mem_printf("%s (%s to %s)", percent(suspect->rate),
                                      percent(suspect->low), percent(suspect->high)));
        table_cell(&table, text_count(suspect->same_causes));
        table_cell(&table, text_count(suspect->calls));
        table_cell(&table, where_text(suspect));
    }
    table_print(&table);
}

static const char *place_text(const struct mining_place *place)
{
    struct engine_side side = side_of(place);
    const char *scope = place->scope[0] ? mem_printf(" in %s", text_escape(place->scope)) : "";
    const char *again = place->occurrence ? mem_printf(", call %u", place->occurrence + 1) : "";
    const char *source = place->source[0] ? mem_printf(", %s", text_escape(place->source)) : "";

    return mem_printf("%s, rank %u, %s, %s%s%s%s: output %u %s %s", text_escape(place->run->name),
                      place->rank, text_segment(place->segment), text_phase(place->phase), scope,
                      again, source, place->slot, answer_type(&side), answer_value(&side));
}

static void print_known(FILE *file, const struct known_op *known, int width)
{
    const char *when = is_given(known->when) ? mem_printf(", %s", known->when) : "";

    text_wrap(file, "  known:    ", 12,
              mem_printf("%s documents an op of this name as nondeterministic (%s%s; %s): %s. %s",
                         known->library, known->device, when, known->versions, known->remedy,
                         known->source),
              width);
}

static void print_suspect(FILE *file, const struct mining_suspect *suspect, int width)
{
    const struct known_op *known = advice(suspect);

    fprintf(file, "\n%s%s%s\n", text_style(TEXT_BOLD), text_escape(suspect->op),
            text_style(TEXT_PLAIN));
    if (suspect->has_example) {
        text_wrap(file, "  example:  ", 12, place_text(&suspect->example[0]), width);
        text_wrap(file, "  against:  ", 12, place_text(&suspect->example[1]), width);
    }
    if (suspect->inherited)
        text_wrap(file, "  inputs:   ", 12,
                  mem_printf("in %s some input was inherited from its producer's record, not "
                             "measured; something may have written it in between",
                             suspect->inherited == suspect->differing
                                 ? "all of them"
                                 : text_things(suspect->inherited, "set")),
                  width);
    if (suspect->blame == MINING_ALONE)
        text_wrap(file, "  where:    ", 12,
                  mem_printf("every call that departs from the others ran on %s; by chance: %.2g",
                             text_escape(suspect->culprit), suspect->chance),
                  width);
    if (suspect->blame == MINING_FOLLOWS)
        text_wrap(file, "  where:    ", 12,
                  "each host and device repeats itself, and they disagree: look for what differs "
                  "between them (divergectl env-diff)",
                  width);
    if (known)
        print_known(file, known, width);
}

void suspects_print_text(FILE *file, const struct mining_result *result,
                         enum suspects_outcome outcome, int width)
{
    const char *reasons[SUSPECTS_REASONS];
    size_t n = suspects_reasons(result, reasons);

    if (outcome == SUSPECTS_FOUND) {
        print_table(result);
        for (size_t i = 0; i < result->n_suspects; i++)
            print_suspect(file, &result->suspects[i], width);
        fputc('\n', file);
    } else if (outcome == SUSPECTS_NONE) {
        text_wrap(file, "", 0,
                  "No suspects: every op that was called again with the same arguments "
                  "and inputs gave the same output.",
                  width);
    } else {
        text_wrap(file, "", 0,
                  "Cannot tell: no suspects were found, but not everything could be "
                  "looked at.",
                  width);
    }
    text_wrap(file, "", 0,
              mem_printf("%s in %s; %s of arguments and inputs, %s of them more than once. %s left "
                         "out (random, collective, uninitialised, unread, without input).",
                         text_things(result->calls, "call"), text_things(result->runs, "run"),
                         text_things(result->groups, "set"), text_count(result->repeated),
                         text_things(result->left_out, "call")),
              width);
    for (size_t i = 0; i < n; i++)
        text_wrap(file, "Missing: ", 9, reasons[i], width);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void emit_place(struct emit *emit, const struct mining_place *place)
{
    struct engine_side side = side_of(place);

    emit_object(emit, NULL);
    emit_string(emit, "run", text_id(place->run->run_id));
    emit_string(emit, "name", place->run->name);
    emit_u64(emit, "rank", place->rank);
    answer_emit_place(emit, place->segment);
    emit_string(emit, "lane", place->lane);
    emit_string(emit, "phase", text_phase(place->phase));
    emit_string(emit, "scope", place->scope);
    emit_u64(emit, "occurrence", place->occurrence);
    emit_u64(emit, "slot", place->slot);
    answer_emit_side(emit, &side);
    emit_object_end(emit);
}

static void emit_known(struct emit *emit, const struct known_op *known)
{
    if (!known) {
        emit_null(emit, "known");
        return;
    }
    emit_object(emit, "known");
    emit_string(emit, "library", known->library);
    emit_string(emit, "op", known->op);
    emit_string(emit, "device", known->device);
    emit_string(emit, "when", is_given(known->when) ? known->when : NULL);
    emit_string(emit, "remedy", known->remedy);
    emit_string(emit, "versions", known->versions);
    emit_string(emit, "source", known->source);
    emit_object_end(emit);
}

static void emit_suspect(struct emit *emit, const struct mining_suspect *suspect)
{
    emit_object(emit, NULL);
    emit_string(emit, "op", suspect->op);
    emit_u64(emit, "calls", suspect->calls);
    emit_object(emit, "rate");
    emit_u64(emit, "differing", suspect->differing);
    emit_u64(emit, "of", suspect->repeated);
    emit_number(emit, "value", suspect->rate);
    emit_number(emit, "low", suspect->low);
    emit_number(emit, "high", suspect->high);
    emit_object_end(emit);
    emit_u64(emit, "same_causes", suspect->same_causes);
    emit_u64(emit, "inherited", suspect->inherited);
    emit_object(emit, "where");
    emit_string(emit, "blame", mining_blame_name(suspect->blame));
    emit_string(emit, "place", suspect->culprit);
    if (suspect->blame == MINING_ALONE)
        emit_number(emit, "chance", suspect->chance);
    else
        emit_null(emit, "chance");
    emit_object_end(emit);
    emit_array(emit, "example");
    for (size_t i = 0; suspect->has_example && i < 2; i++)
        emit_place(emit, &suspect->example[i]);
    emit_array_end(emit);
    emit_known(emit, advice(suspect));
    emit_object_end(emit);
}

void suspects_print_json(const struct mining_result *result, enum suspects_outcome outcome)
{
    static const char *const names[] = {
        [SUSPECTS_NONE] = "none", [SUSPECTS_FOUND] = "found", [SUSPECTS_UNKNOWN] = "unverified"};
    const char *reasons[SUSPECTS_REASONS];
    size_t n = suspects_reasons(result, reasons);
    struct emit emit;

    emit_begin(&emit, "suspects");
    emit_string(&emit, "result", names[outcome]);
    emit_object(&emit, "scanned");
    emit_u64(&emit, "runs", result->runs);
    emit_u64(&emit, "places", result->places);
    emit_u64(&emit, "steps", result->segments);
    emit_u64(&emit, "shared", result->shared);
    emit_u64(&emit, "incomplete", result->incomplete);
    emit_u64(&emit, "pruned", result->pruned);
    emit_u64(&emit, "calls", result->calls);
    emit_u64(&emit, "left_out", result->left_out);
    emit_u64(&emit, "over_cap", result->over_cap);
    emit_u64(&emit, "sets", result->groups);
    emit_u64(&emit, "repeated", result->repeated);
    emit_object_end(&emit);
    emit_array(&emit, "suspects");
    for (size_t i = 0; i < result->n_suspects; i++)
        emit_suspect(&emit, &result->suspects[i]);
    emit_array_end(&emit);
    emit_array(&emit, "reasons");
    for (size_t i = 0; i < n; i++)
        emit_string(&emit, NULL, reasons[i]);
    emit_array_end(&emit);
    emit_print(&emit);
}
