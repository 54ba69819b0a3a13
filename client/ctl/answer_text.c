/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <diverge/fingerprint.h>

#include "client/ctl/answer.h"
#include "client/ctl/answer_noise.h"
#include "client/ctl/cmd.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"
#include "client/wire/message.h"

/* Where and how an answer is being printed. */
struct page {
    FILE *file;
    int width;
    const struct engine_answer *answer;
    const struct answer_runs *runs;
    bool all;
};

enum { LABEL = 11 }; /* columns before the text of a detail line */

static void line(const struct page *page, const char *label, const char *text)
{
    bool fits = strlen(label) < LABEL - 2; /* a long one pushes its text on */
    text_wrap(page->file, mem_printf("  %-*s%s", LABEL - 2, label, fits ? "" : " "), LABEL, text,
              page->width);
}

static void sentence(const struct page *page, const char *text)
{
    text_wrap(page->file, "", 2, text, page->width);
}

static const char *join(const char *text, const char *more)
{
    return *text ? mem_printf("%s, %s", text, more) : more;
}

/* ---- values --------------------------------------------------------------------------------- */

const char *answer_type(const struct engine_side *side)
{
    if (!side->present)
        return "missing";
    switch (side->kind) {
    case DIVERGE_KIND_TENSOR:
        return text_shape(side->dtype, side->ndim, side->sizes);
    case DIVERGE_KIND_FLOAT:
        return "float64";
    case DIVERGE_KIND_INTEGER:
        return "int64";
    case DIVERGE_KIND_ABSENT:
        return "none";
    }
    return "?";
}

const char *answer_value(const struct engine_side *side)
{
    double value;

    if (!side->present)
        return "missing";
    if (side->unread)
        return "unread";
    switch (side->kind) {
    case DIVERGE_KIND_TENSOR:
        return text_checksum(side->value);
    case DIVERGE_KIND_FLOAT:
        memcpy(&value, &side->value, sizeof(value));
        return text_exact(value);
    case DIVERGE_KIND_INTEGER:
        return mem_printf("%lld", (long long)side->value);
    case DIVERGE_KIND_ABSENT:
        return "absent";
    }
    return "?";
}

static const char *extreme(const struct engine_side *side, uint64_t bits)
{
    if (side->dtype == DIVERGE_U64)
        return mem_printf("%llu", (unsigned long long)bits);
    if (side->dtype == DIVERGE_I64)
        return mem_printf("%lld", (long long)bits);
    return text_number(text_value(side->dtype, bits));
}

static const char *non_finite(const struct engine_side *side)
{
    const char *text = "";

    if (side->nan)
        text = join(text, mem_printf("%s NaN", text_count(side->nan)));
    if (side->pinf)
        text = join(text, mem_printf("%s +Inf", text_count(side->pinf)));
    if (side->ninf)
        text = join(text, mem_printf("%s -Inf", text_count(side->ninf)));
    return text;
}

/* "min -1.2, max 3.4, L2 5.6, 3 zeros, 1 NaN" */
static const char *statistics(const struct engine_side *side)
{
    const char *text = "";

    if (side->state & DVG_STATE_RANGE)
        text = mem_printf("min %s, max %s", extreme(side, side->min), extreme(side, side->max));
    if (side->state & DVG_STATE_SUM)
        text = join(text, mem_printf("sum %s", text_number((double)side->sum)));
    if (side->state & DVG_STATE_L2)
        text = join(text, mem_printf("L2 %s", text_number((double)side->l2)));
    if (side->zero)
        text = join(text, text_things(side->zero, "zero"));
    if (*non_finite(side))
        text = join(text, non_finite(side));
    return text;
}

static bool is_tensor(const struct engine_side *side)
{
    return side->present && side->kind == DIVERGE_KIND_TENSOR;
}

/* ---- a finding ------------------------------------------------------------------------------ */

static const char *place(const struct engine_finding *finding, uint64_t ranks)
{
    const struct trace_site *site = finding->site;
    const char *text = text_segment(finding->segment);
    bool state = finding->segment % 2 && site->phase == DIVERGE_PHASE_BOUNDARY;

    if (ranks > 1)
        text = mem_printf("%s, rank %u", text, finding->rank);
    if (!state && !(finding->segment == 0 && site->phase == DIVERGE_PHASE_INIT))
        text = mem_printf("%s, %s", text, text_phase(site->phase));
    if (site->micro_step)
        text = mem_printf("%s, micro-step %u", text, site->micro_step);
    if (*site->region)
        text = mem_printf("%s, region %s", text, text_escape(site->region));
    if (*site->lane && strcmp(site->lane, "main") != 0)
        text = mem_printf("%s, lane %s", text, text_escape(site->lane));
    return mem_printf("%s, record %llu", text, (unsigned long long)finding->order);
}

/* "output 0", "param fc1.weight": what of the op or state it is. */
static const char *what(const struct trace_site *site)
{
    const char *role = text_role(site->role);
    bool slotted = site->role == DIVERGE_ROLE_INPUT || site->role == DIVERGE_ROLE_OUTPUT;

    if (!slotted && !site->slot)
        return role;
    return mem_printf("%s %u", role, site->slot);
}

static const char *source_of(const struct engine_finding *finding)
{
    const char *a = finding->a.source ? finding->a.source : "";
    const char *b = finding->b.source ? finding->b.source : "";

    if (*a && *b && strcmp(a, b) != 0) /* the program was edited in between */
        return mem_printf("%s (B %s)", text_escape(a), text_escape(b));
    return text_escape(*a ? a : b);
}

static void print_op(const struct page *page, const struct engine_finding *finding)
{
    const struct trace_site *site = finding->site;
    const char *source = source_of(finding);
    const char *text = text_escape(site->op);

    if (*site->op && site->occurrence)
        text = mem_printf("%s (call %u here)", text, site->occurrence + 1);
    if (*site->scope)
        text = mem_printf("%s%s%s", text, *text ? "   " : "", text_escape(site->scope));
    if (*source)
        text = mem_printf("%s%s%s", text, *text ? "   " : "", source);
    if (*text)
        line(page, *site->op ? "op" : *site->scope ? "scope" : "source", text);
}

/* A sketch in float32 cannot tell less. */
#define SKETCH_FLOOR 2e-7

static const char *distance(const struct engine_finding *finding)
{
    const char *text = "";

    if (isfinite(finding->rel_l2) && finding->rel_l2 < SKETCH_FLOOR)
        return mem_printf("rel. L2 at most %.0e", SKETCH_FLOOR);
    if (isfinite(finding->rel_l2))
        text = mem_printf("rel. L2 about %.2g", finding->rel_l2);
    if (isfinite(finding->ulp))
        text = join(text, mem_printf("about %.2g ulp", finding->ulp));
    return text;
}

static const char *scalar_distance(const struct engine_finding *finding)
{
    double a;
    double b;

    if (!finding->a.present || !finding->b.present || finding->a.kind != DIVERGE_KIND_FLOAT ||
        finding->b.kind != DIVERGE_KIND_FLOAT)
        return "";
    memcpy(&a, &finding->a.value, sizeof(a));
    memcpy(&b, &finding->b.value, sizeof(b));
    if (!isfinite(a) || !isfinite(b) || a == 0 || a == b)
        return "";
    return mem_printf("relative difference %.2g", fabs(b - a) / fabs(a));
}

static void print_statistics(const struct page *page, const struct engine_side *a,
                             const struct engine_side *b)
{
    const char *in_a = is_tensor(a) && a->has_stats ? statistics(a) : "";
    const char *in_b = is_tensor(b) && b->has_stats ? statistics(b) : "";

    if (*in_a && !strcmp(in_a, in_b)) { /* to the digits shown */
        line(page, "in both", in_a);
        return;
    }
    if (*in_a)
        line(page, "in A", in_a);
    if (*in_b)
        line(page, "in B", in_b);
}

static void print_values(const struct page *page, const struct engine_finding *finding)
{
    const struct engine_side *a = &finding->a;
    const struct engine_side *b = &finding->b;
    const char *name =
        *finding->site->name ? mem_printf("%s   ", text_escape(finding->site->name)) : "";
    const char *far = is_tensor(a) ? distance(finding) : scalar_distance(finding);
    const char *type_a = answer_type(a);
    const char *type_b = answer_type(b);
    bool same_type = !strcmp(type_a, type_b);
    const char *text;

    if (same_type)
        text = mem_printf("%s%s   A %s   B %s", name, type_a, answer_value(a), answer_value(b));
    else
        text = mem_printf("%sA %s%s%s   B %s%s%s", name, type_a, a->present ? " " : "",
                          a->present ? answer_value(a) : "", type_b, b->present ? " " : "",
                          b->present ? answer_value(b) : "");
    line(page, what(finding->site), *far ? mem_printf("%s   %s", text, far) : text);
    print_statistics(page, a, b);
}

static void print_inputs(const struct page *page, const struct engine_finding *finding)
{
    const struct engine_inputs *inputs = &finding->inputs;
    uint64_t total = (uint64_t)inputs->equal + inputs->differ;

    if (!finding->has_inputs)
        return;
    if (!total) {
        line(page, "inputs", "none recorded");
        return;
    }
    const char *how = inputs->inherited ? mem_printf(" (%u measured, %u inherited)",
                                                     inputs->measured, inputs->inherited)
                                        : " (measured)";
    line(page, "inputs",
         inputs->differ
             ? mem_printf("%u of %llu differ already%s", inputs->differ, (unsigned long long)total,
                          how)
             : mem_printf("%u of %llu equal%s", inputs->equal, (unsigned long long)total, how));
}

static void print_arguments(const struct page *page, const struct engine_finding *finding)
{
    const char *a = finding->a.argument_text;
    const char *b = finding->b.argument_text;

    if (finding->a.argument == finding->b.argument || !finding->a.present || !finding->b.present)
        return;
    line(page, "arguments",
         mem_printf("differ: A %s   B %s", a ? text_escape(a) : "(unknown)",
                    b ? text_escape(b) : "(unknown)"));
}

static const char *counter_text(const struct answer_counter *counter)
{
    const char *name = text_escape(counter->name);

    if (counter->has_a && counter->has_b && counter->a == counter->b)
        return mem_printf("%s %lld", name, (long long)counter->a);
    if (counter->has_a && counter->has_b)
        return mem_printf("%s A %lld B %lld", name, (long long)counter->a, (long long)counter->b);
    return counter->has_a ? mem_printf("%s A %lld", name, (long long)counter->a)
                          : mem_printf("%s B %lld", name, (long long)counter->b);
}

static void print_counters(const struct page *page)
{
    const char *text = "";

    for (size_t i = 0; i < page->runs->n_counters; i++)
        text = join(text, counter_text(&page->runs->counters[i]));
    if (*text)
        line(page, "counters", text);
}

static void print_finding(const struct page *page, const char *title,
                          const struct engine_finding *finding)
{
    uint64_t ranks = page->answer->compared.ranks + finding->rank; /* --rank 3: one, and not 0 */

    text_wrap(page->file,
              mem_printf("%s%s%s ", text_style(TEXT_BOLD), title, text_style(TEXT_PLAIN)), 2,
              place(finding, ranks), page->width);
    print_op(page, finding);
    print_values(page, finding);
    print_arguments(page, finding);
    print_inputs(page, finding);
    if (finding == page->answer->first)
        print_counters(page);
}

/* ---- the head ------------------------------------------------------------------------------- */

/* "12 steps, 1 204 331 records on each side, none dropped" */
static const char *amount(const struct engine_answer *answer, uint64_t steps)
{
    const char *text = text_things(steps, "step");

    if (answer->compared.ranks > 1)
        text = join(text, text_things(answer->compared.ranks, "rank"));
    text =
        join(text, mem_printf("%s on each side", text_things(answer->compared.records, "record")));
    return join(text, answer->compared.dropped
                          ? mem_printf("%s dropped", text_count(answer->compared.dropped))
                          : "none dropped");
}

static void print_names(const struct page *page)
{
    const struct answer_runs *runs = page->runs;

    if (!strcmp(runs->a_as, runs->a_said) && !strcmp(runs->b_as, runs->b_said))
        return;
    sentence(page, mem_printf("A is %s, B is %s.", runs->a_as, runs->b_as));
}

static void print_offset(const struct page *page)
{
    if (page->answer->offset)
        sentence(page,
                 mem_printf("B starts at A's boundary %lld: its boundary and step numbers are "
                            "shifted by as much.",
                            (long long)page->answer->offset));
}

static void print_agreement(const struct page *page)
{
    const struct engine_answer *answer = page->answer;
    uint64_t steps = answer->compared.steps; /* with the one that differs */

    if (answer->has_agree && steps > answer->agree_boundary)
        steps = answer->agree_boundary;
    if (answer->has_agree)
        sentence(page,
                 mem_printf("Agree through boundary %llu (%s).",
                            (unsigned long long)answer->agree_boundary, amount(answer, steps)));
    else if (answer->first && answer->first->segment <= 1)
        sentence(page, "They differ from the start: no boundary agrees.");
    else if (!answer->n_reasons && !answer->has_bracket)
        sentence(page, "They differ at the first boundary that both have.");
    else if (!answer->has_bracket)
        sentence(page, "No boundary is known to agree.");
    if (!answer->has_bracket)
        return;
    sentence(page,
             answer->bracket_has_last
                 ? mem_printf("Between %s and %s nothing was recorded on both sides: it arose "
                              "somewhere in there.",
                              text_segment(answer->bracket_last_equal),
                              text_segment(answer->bracket_first_differ))
                 : mem_printf("Before %s nothing was recorded on both sides: it arose there or "
                              "earlier.",
                              text_segment(answer->bracket_first_differ)));
}

static void print_only(const struct page *page)
{
    const struct engine_answer *answer = page->answer;

    if (answer->compared.only_a)
        sentence(page, mem_printf("%s only in A.", text_things(answer->compared.only_a, "record")));
    if (answer->compared.only_b)
        sentence(page, mem_printf("%s only in B.", text_things(answer->compared.only_b, "record")));
}

/* ---- the verdict ---------------------------------------------------------------------------- */

static const char *list(const char *const *texts, size_t count)
{
    const char *text = "";

    for (size_t i = 0; i < count; i++)
        text = mem_printf("%s%s%s", text, i ? "; " : "", text_escape(texts[i]));
    return text;
}

static void print_verdict(const struct page *page)
{
    const struct engine_verdict *verdict = &page->answer->verdict;
    const char *detail =
        verdict->detail && *verdict->detail ? mem_printf(", %s", text_escape(verdict->detail)) : "";

    text_wrap(page->file, "", 2,
              mem_printf("%sVerdict: %s%s%s (%s). %s", text_style(TEXT_BOLD), verdict->class_name,
                         detail, text_style(TEXT_PLAIN),
                         engine_confidence_name(verdict->confidence),
                         verdict->text ? text_escape(verdict->text) : ""),
              page->width);
    if (verdict->n_evidence)
        line(page, "Evidence", list(verdict->evidence, verdict->n_evidence));
    if (verdict->n_next)
        line(page, "Next", list(verdict->next, verdict->n_next));
}

/* ---- environment and loss ------------------------------------------------------------------- */

static size_t count_class(const struct engine_answer *answer, const char *class_name)
{
    size_t count = 0;

    for (size_t i = 0; i < answer->n_environment; i++)
        count += !strcmp(answer->environment[i].class_name, class_name);
    return count;
}

enum { CAUSES_SHOWN = 3, VALUE_MAX = 60 /* bytes */ };

/* A setting's value in a sentence: env-diff shows it whole. */
static const char *short_value(const char *value)
{
    if (!value)
        return "not set";
    if (!*value)
        return "empty";
    const char *text = text_escape(value);
    size_t size = strlen(text);

    if (size <= VALUE_MAX)
        return text;
    size = VALUE_MAX - 1;
    while (size && ((unsigned char)text[size] & 0xc0) == 0x80) /* not inside a character */
        size--;
    return mem_printf("%.*s…", (int)size, text);
}

static const char *causes(const struct engine_answer *answer)
{
    const char *text = "";
    size_t shown = 0;

    for (size_t i = 0; i < answer->n_environment && shown < CAUSES_SHOWN; i++) {
        const struct engine_environment *entry = &answer->environment[i];

        if (strcmp(entry->class_name, "cause") != 0)
            continue;
        text = join(text, mem_printf("%s (A %s, B %s)", text_escape(entry->key),
                                     short_value(entry->a), short_value(entry->b)));
        shown++;
    }
    return text;
}

static const char *environment(const struct page *page)
{
    const struct engine_answer *answer = page->answer;
    size_t different = count_class(answer, "cause");
    size_t context = count_class(answer, "context");
    const char *text =
        mem_printf("%s equal", text_things(answer->environment_equal_causes, "cause"));

    if (!different && !answer->environment_equal_causes && !answer->n_environment)
        return "nothing recorded";
    if (different) {
        text = mem_printf("%s; %s %s: %s", text, text_count(different),
                          different == 1 ? "differs" : "differ", causes(answer));
        if (different > CAUSES_SHOWN)
            text = mem_printf("%s and %s more (divergectl env-diff %s %s)", text,
                              text_count(different - CAUSES_SHOWN), page->runs->a_said,
                              page->runs->b_said);
    }
    if (context)
        text = mem_printf("%s%s%s %s in context only", text, different ? "; " : ", ",
                          text_count(context), context == 1 ? "differs" : "differ");
    return text;
}

static void print_rest(const struct page *page)
{
    const struct engine_answer *answer = page->answer;
    const char *loss = "";

    if (answer->first && answer->first->site->role == DIVERGE_ROLE_LOSS)
        loss = "";
    else if (answer->first && answer->loss_segment)
        loss = answer->loss_segment == answer->first->segment
                   ? "Loss shows it in the same step. "
                   : mem_printf("Loss shows it first at %s. ", text_segment(answer->loss_segment));
    sentence(page, mem_printf("%sEnvironment: %s.", loss, environment(page)));
}

/* ---- notes and other ranks ------------------------------------------------------------------ */

enum { NOTES_SHOWN = 3 };

static const char *note_text(const struct engine_note *note)
{
    const struct trace_site *site = note->site;
    const char *name = site ? (*site->op ? site->op : *site->name ? site->name : site->scope) : "";

    return mem_printf("%s: only in %c, %s%s%s%s%s", text_segment(note->segment),
                      note->side == 'a' ? 'A' : 'B', text_things(note->count, "record"),
                      *name ? " from " : "", text_escape(name),
                      site && *site->scope && name != site->scope ? " in " : "",
                      site && name != site->scope ? text_escape(site->scope) : "");
}

static void print_notes(const struct page *page)
{
    const struct engine_answer *answer = page->answer;
    size_t count = answer->n_structure;
    size_t shown = page->all || count <= NOTES_SHOWN ? count : NOTES_SHOWN;

    if (!count)
        return;
    fprintf(page->file, "%sStructure%s\n", text_style(TEXT_BOLD), text_style(TEXT_PLAIN));
    for (size_t i = 0; i < shown; i++)
        text_wrap(page->file, "  ", 4, note_text(&answer->structure[i]), page->width);
    if (shown < count)
        text_wrap(page->file, "  ", 4, mem_printf("%s more (--all)", text_count(count - shown)),
                  page->width);
}

static bool same_place(const struct engine_finding *a, const struct engine_finding *b)
{
    return a->segment == b->segment && a->order == b->order &&
           !memcmp(&a->site->digest, &b->site->digest, sizeof(a->site->digest));
}

/* Ranks whose first difference is at one place, as "1, 2 and 5". */
static const char *ranks_like(const struct engine_answer *answer, size_t at)
{
    const char *text = mem_printf("%u", answer->candidates[at]->rank);

    for (size_t i = at + 1; i < answer->n_candidates; i++)
        if (same_place(answer->candidates[i], answer->candidates[at]))
            text = mem_printf("%s, %u", text, answer->candidates[i]->rank);
    return text;
}

static bool is_listed(const struct engine_answer *answer, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (same_place(answer->candidates[i], answer->candidates[at]))
            return true;
    return false;
}

const char *answer_brief(const struct engine_finding *finding, uint64_t ranks)
{
    const struct trace_site *site = finding->site;

    return mem_printf("%s: %s%s%s%s%s", place(finding, ranks), text_escape(site->op),
                      *site->op ? ", " : "", what(site), *site->name ? " " : "",
                      text_escape(site->name));
}

static void print_ranks(const struct page *page)
{
    const struct engine_answer *answer = page->answer;

    if (answer->n_candidates < 2)
        return;
    fprintf(page->file, "%sBy rank%s (there is no order across ranks)\n", text_style(TEXT_BOLD),
            text_style(TEXT_PLAIN));
    for (size_t i = 0; i < answer->n_candidates; i++)
        if (!is_listed(answer, i))
            text_wrap(page->file, mem_printf("  rank %s: ", ranks_like(answer, i)), 4,
                      answer_brief(answer->candidates[i], 1), page->width);
}

static void print_also(const struct page *page)
{
    const struct engine_answer *answer = page->answer;

    if (!answer->n_also)
        return;
    fprintf(page->file, "%sAlso%s\n", text_style(TEXT_BOLD), text_style(TEXT_PLAIN));
    for (size_t i = 0; i < answer->n_also; i++)
        text_wrap(page->file, "  ", 4,
                  mem_printf("%s (%s%s)", answer_brief(answer->also[i], 1),
                             answer->also[i]->independent ? "independent " : "",
                             engine_relation_name(answer->also[i]->relation)),
                  page->width);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void print_reasons(const struct page *page, const char *title)
{
    const struct engine_answer *answer = page->answer;

    if (!answer->n_reasons)
        return;
    if (answer->n_reasons == 1) {
        text_wrap(page->file, mem_printf("%s ", title), 2, text_escape(answer->reasons[0]),
                  page->width);
        return;
    }
    fprintf(page->file, "%s\n", title);
    for (size_t i = 0; i < answer->n_reasons; i++)
        text_wrap(page->file, "  - ", 4, text_escape(answer->reasons[i]), page->width);
}

static void print_noise(const struct page *page)
{
    struct answer_line lines[ANSWER_NOISE_LINES];
    size_t count = answer_noise_lines(page->answer, page->runs, lines);

    for (size_t i = 0; i < count; i++)
        line(page, lines[i].label, lines[i].text);
}

static void print_differ(const struct page *page)
{
    print_agreement(page);
    if (page->answer->first)
        print_finding(page,
                      page->answer->n_reasons ? "First observed difference:" : "First difference:",
                      page->answer->first);
    if (page->answer->beyond_noise && page->answer->beyond_noise != page->answer->first)
        print_finding(page, "First beyond noise:", page->answer->beyond_noise);
    print_verdict(page);
    print_noise(page);
    print_reasons(page, "But:");
}

static void print_equal(const struct page *page)
{
    text_wrap(page->file, mem_printf("%sSame%s: ", text_style(TEXT_GOOD), text_style(TEXT_PLAIN)),
              2,
              mem_printf("%s, %s.", text_things(page->answer->compared.boundaries, "boundary"),
                         amount(page->answer, page->answer->compared.steps)),
              page->width);
}

/* Bits differ, and that is all. */
static void print_within(const struct page *page)
{
    text_wrap(page->file,
              mem_printf("%sWithin noise%s: ", text_style(TEXT_GOOD), text_style(TEXT_PLAIN)), 2,
              "they differ in bits, but by no more than noise.", page->width);
    print_differ(page);
}

static void print_unverified(const struct page *page)
{
    text_wrap(page->file,
              mem_printf("%sCannot tell%s", text_style(TEXT_BAD), text_style(TEXT_PLAIN)), 2,
              mem_printf(" whether they are the same: what was compared %s (%s), but not all "
                         "of it was there.",
                         page->answer->first ? "agrees within noise" : "agrees",
                         amount(page->answer, page->answer->compared.steps)),
              page->width);
    print_reasons(page, "Because:");
    if (page->answer->verdict.n_next)
        line(page, "Next", list(page->answer->verdict.next, page->answer->verdict.n_next));
}

void answer_text(FILE *file, const struct engine_answer *answer, const struct answer_runs *runs,
                 bool all, int width)
{
    const struct page page = {
        .file = file, .width = width, .answer = answer, .runs = runs, .all = all};

    print_names(&page);
    print_offset(&page);
    switch (answer->result) {
    case ENGINE_SAME:
        print_equal(&page);
        break;
    case ENGINE_WITHIN_NOISE:
        print_within(&page);
        break;
    case ENGINE_DIFFER:
        print_differ(&page);
        break;
    case ENGINE_UNVERIFIED:
        print_unverified(&page);
        break;
    }
    print_only(&page);
    print_ranks(&page);
    print_also(&page);
    print_notes(&page);
    print_rest(&page);
}

static const char *whole_value(const char *value)
{
    return !value ? "(not set)" : *value ? text_escape(value) : "(empty)";
}

void answer_environment(FILE *file, const struct engine_answer *answer, int width)
{
    for (size_t i = 0; i < answer->n_environment; i++) {
        const struct engine_environment *entry = &answer->environment[i];

        if (!i || strcmp(entry->class_name, answer->environment[i - 1].class_name) != 0)
            fprintf(file, "%s%s%s\n", text_style(TEXT_BOLD), entry->class_name,
                    text_style(TEXT_PLAIN));
        text_wrap(file, mem_printf("  %s  ", text_escape(entry->key)), 6,
                  mem_printf("A %s   B %s", whole_value(entry->a), whole_value(entry->b)), width);
    }
}
