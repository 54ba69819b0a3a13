/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trunk goes down: it is the biggest group of each split. Branches leave to the right, each
 * with its own trunk.
 */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/answer.h"
#include "client/ctl/mem.h"
#include "client/ctl/text.h"
#include "client/ctl/tree_print.h"

struct page {
    FILE *file;
    int width;
    const struct tree *tree;
    const struct tree_input *inputs;
};

enum { NAMES_SHOWN = 12, WIDTH_MIN = 20 };

static const char *bar(void)
{
    return text_is_utf8() ? "│  " : "|  ";
}

static const char *fork_mark(void)
{
    return text_is_utf8() ? "├─ " : "|- ";
}

static const char *end_mark(void)
{
    return text_is_utf8() ? "└─ " : "`- ";
}

/* `head` before the first line, `rest` before those that it wraps into. */
static void draw(const struct page *page, const char *head, const char *rest, const char *text)
{
    int width = page->width ? page->width - text_columns(head) : 0;
    char *wrapped = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&wrapped, &size);

    if (!file)
        return;
    text_wrap(file, "", 0, text, width && width < WIDTH_MIN ? WIDTH_MIN : width);
    if (fclose(file) == 0) {
        char *rest_of_text = wrapped;

        for (char *line; (line = strsep(&rest_of_text, "\n")) && *line; head = rest)
            fprintf(page->file, "%s%s\n", head, line);
    }
    free(wrapped);
}

/* ---- words ---------------------------------------------------------------------------------- */

static bool is_among(uint32_t run, const uint32_t *runs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (runs[i] == run)
            return true;
    return false;
}

/* Names of `runs` without those of `but`. */
static const char *names(const struct page *page, const uint32_t *runs, uint32_t n,
                         const uint32_t *but, uint32_t n_but)
{
    const char *text = "";
    uint32_t shown = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (is_among(runs[i], but, n_but))
            continue;
        if (shown == NAMES_SHOWN)
            return mem_printf("%s and %s more", text, text_count(n - n_but - shown));
        text = mem_printf("%s%s%s", text, shown ? ", " : "", page->inputs[runs[i]].name);
        shown++;
    }
    return text;
}

/* "3 of 7 runs (43 %, 95 % interval 16 to 75 %)" */
static const char *share(uint64_t runs, uint64_t of)
{
    struct tree_rate rate = tree_rate(runs, of);

    return mem_printf("%s of %s (%.0f %%, 95 %% interval %.0f to %.0f %%)", text_count(runs),
                      text_things(of, "run"), 100 * rate.rate, 100 * rate.low, 100 * rate.high);
}

static const char *through(const struct tree_branch *branch)
{
    return branch->has_agree ? mem_printf("equal through boundary %llu",
                                          (unsigned long long)branch->agree_boundary)
                             : "no boundary is known to be equal";
}

static const char *verdict(const struct engine_answer *parts)
{
    const struct engine_verdict *verdict = &parts->verdict;
    const char *detail =
        verdict->detail && *verdict->detail ? mem_printf(", %s", text_escape(verdict->detail)) : "";

    return mem_printf("%s%s (%s)", verdict->class_name, detail,
                      engine_confidence_name(verdict->confidence));
}

static const char *where(const struct page *page, const struct engine_answer *parts)
{
    const struct engine_finding *first = parts->first;
    bool many = page->inputs[0].run->world > 1;

    if (!first)
        return "parts";
    const char *scope =
        *first->site->scope ? mem_printf(" in %s", text_escape(first->site->scope)) : "";

    return mem_printf("%s%s%s", answer_brief(first, many ? 2 : 1), scope,
                      parts->after_gap ? " (first observed: records before it are missing)" : "");
}

/* ---- drawing -------------------------------------------------------------------------------- */

static void draw_branch(const struct page *page, const struct tree_branch *branch,
                        const char *prefix);

static void draw_end(const struct page *page, const struct tree_branch *branch, const char *prefix)
{
    uint32_t whole = branch->n_runs - branch->n_undecided;
    const char *text = "";

    const char *last = branch->has_agree ? mem_printf(" (boundary %llu)",
                                                      (unsigned long long)branch->agree_boundary)
                                         : "";

    if (whole)
        text = mem_printf(
            "end state %lld: %s to the end%s: %s", (long long)branch->end_state + 1,
            whole > 1 ? mem_printf("%s equal", text_things(whole, "run")) : "1 run", last,
            names(page, branch->runs, branch->n_runs, branch->undecided, branch->n_undecided));
    if (branch->n_undecided)
        text = mem_printf("%s%s%s agree as far as recorded, the rest cannot be told: %s", text,
                          whole ? "; " : "", text_things(branch->n_undecided, "run"),
                          names(page, branch->undecided, branch->n_undecided, NULL, 0));
    draw(page, mem_printf("%s%s", prefix, end_mark()), mem_printf("%s   ", prefix), text);
}

static void draw_child(const struct page *page, const struct tree_branch *child, const char *prefix)
{
    const char *inner = mem_printf("%s%s", prefix, bar());

    draw(page, mem_printf("%s%s", prefix, fork_mark()), inner,
         mem_printf("%s%s%s", text_style(TEXT_BOLD), where(page, child->parts),
                    text_style(TEXT_PLAIN)));
    draw(page, inner, inner,
         mem_printf("%s; %s", share(child->n_runs, child->of), verdict(child->parts)));
    draw_branch(page, child, inner);
}

static void draw_branch(const struct page *page, const struct tree_branch *branch,
                        const char *prefix)
{
    const char *trunk = mem_printf("%s%s", prefix, bar());

    if (!branch->n_children) {
        draw_end(page, branch, prefix);
        return;
    }
    draw(page, trunk, trunk,
         mem_printf("%s, %s", text_things(branch->n_runs, "run"), through(branch)));
    for (uint32_t i = 1; i < branch->n_children; i++)
        draw_child(page, branch->children[i], prefix);
    if (branch->n_undecided)
        draw(page, trunk, trunk,
             mem_printf("what these would do cannot be told: %s",
                        names(page, branch->undecided, branch->n_undecided, NULL, 0)));
    draw_branch(page, branch->children[0], prefix);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void print_head(const struct page *page)
{
    const struct tree *tree = page->tree;
    const char *runs = text_things(tree->n_runs, "run");

    switch (tree->result) {
    case ENGINE_SAME:
    case ENGINE_WITHIN_NOISE:
        text_wrap(page->file,
                  mem_printf("%sSame%s: ", text_style(TEXT_GOOD), text_style(TEXT_PLAIN)), 2,
                  mem_printf("%s, %s.", runs, through(tree->root)), page->width);
        break;
    case ENGINE_DIFFER:
        text_wrap(page->file, "", 2,
                  mem_printf("%s%s in %s%s", text_style(TEXT_BOLD), runs,
                             text_things(tree->n_end_states, "end state"), text_style(TEXT_PLAIN)),
                  page->width);
        break;
    case ENGINE_UNVERIFIED:
        text_wrap(page->file,
                  mem_printf("%sCannot tell%s", text_style(TEXT_BAD), text_style(TEXT_PLAIN)), 2,
                  mem_printf(" whether %s are the same: what was compared agrees, but not all of "
                             "it was there.",
                             runs),
                  page->width);
        break;
    }
}

/* One line a state, when runs land in fewer states than there are runs. */
static void print_states(const struct page *page)
{
    const struct tree *tree = page->tree;

    if (tree->n_end_states < 2 || tree->n_end_states == tree->n_ended)
        return;
    fprintf(page->file, "%sEnd states%s\n", text_style(TEXT_BOLD), text_style(TEXT_PLAIN));
    for (uint32_t i = 0; i < tree->n_end_states; i++) {
        const struct tree_end_state *state = &tree->end_states[i];
        const char *ways = state->branches > 1 ? mem_printf(", by %s ways that meet again",
                                                            text_count(state->branches))
                                               : "";

        text_wrap(page->file, mem_printf("  %u  ", i + 1), 5,
                  mem_printf("%s%s", share(state->n_runs, tree->n_ended), ways), page->width);
    }
}

static void print_reasons(const struct page *page)
{
    const struct tree *tree = page->tree;

    if (!tree->n_reasons)
        return;
    fprintf(page->file, "%s\n", tree->result == ENGINE_DIFFER ? "But:" : "Because:");
    for (size_t i = 0; i < tree->n_reasons; i++)
        text_wrap(page->file, "  - ", 4, text_escape(tree->reasons[i]), page->width);
}

void tree_print_text(FILE *file, const struct tree *tree, const struct tree_input *inputs,
                     int width)
{
    const struct page page = {.file = file, .width = width, .tree = tree, .inputs = inputs};

    print_head(&page);
    if (tree->result != ENGINE_SAME)
        draw_branch(&page, tree->root, "");
    print_states(&page);
    print_reasons(&page);
}
