/* tamis plan STORE, tamis plan --sizes: the memory of a store's filters, divided so
 * that lookups of absent keys waste the fewest reads. A table, or JSON. */
#include "../picture/picture.h"
#include "inside.h"

static void count_now(struct store_plan *p)
{
    double *keys = memory_or_exit(calloc(p->n + 1, sizeof(*keys)));
    /* As the library weighs them: a run's segments by their keys, none below one. */
    for (size_t i = 0; i < p->n; i++)
        keys[p->sizes[i].run] += p->segments[i].keys ? (double)p->segments[i].keys : 1;
    for (size_t i = 0; i < p->n; i++) {
        const struct planned *s = &p->segments[i];
        p->bytes_now += s->bytes_now;
        p->length_now += s->length_now;
        p->reads_now +=
            s->error_now * (s->keys ? (double)s->keys : 1) / keys[p->sizes[i].run];
    }
    free(keys);
}

static bool is_live(const struct options *o)
{
    return !given(o, OPT_SIZES);
}

/* ---- for people ---- */

static const char *kind_name(const struct tamis_plan_share *to)
{
    if (to->plan.file_bytes == 0)
        return "-";
    return plan_is_ribbon(to) ? "ribbon" : "bloom";
}

static void print_row(const struct options *o, const struct store_plan *p, size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    char rank[16] = "-", fpr[TEXT_BYTES] = "-", expected[TEXT_BYTES] = "-",
         bits[16] = "-";
    if (s->has_rank)
        snprintf(rank, sizeof(rank), "%lu", (unsigned long)s->rank);
    if (to->plan.file_bytes > 0) {
        percent_text(fpr, to->error);
        percent_text(expected, to->plan.error);
        snprintf(bits, sizeof(bits), "%.2f",
                 s->keys ? 8 * (double)to->plan.file_bytes / (double)s->keys : 0);
    }
    printf("%5s %5zu %12llu %10s %10s %12llu %8s", rank, p->sizes[i].run, LLU(s->keys),
           fpr, expected, LLU(to->plan.file_bytes), bits);
    if (given(o, OPT_KIND))
        printf(" %-6s", kind_name(to));
    if (is_live(o))
        printf(" %10s %12llu %-7s", PERCENT(s->error_now), LLU(s->bytes_now),
               plan_action_name(plan_action(p, i)));
    printf("  %s\n", s->name ? s->name : "-");
}

static double saving(const struct store_plan *p)
{
    double uniform = p->summary.uniform.reads;
    return uniform > 0 ? 1 - p->summary.best.reads / uniform : 0;
}

static void print_totals_of(const char *what, uint64_t bytes, double reads,
                            const char *more)
{
    printf("%-9s %14llu bytes %14s  %-12.6g %s\n", what, LLU(bytes), SIZE(bytes), reads,
           more);
}

static void print_plan(const struct options *o, const struct store_plan *p)
{
    const struct tamis_plan_summary *s = &p->summary;
    char text[160];
    printf("%5s %5s %12s %10s %10s %12s %8s", "RANK", "RUN", "KEYS", "FPR", "EXPECTED",
           "BYTES", "BITS/KEY");
    if (given(o, OPT_KIND))
        printf(" %-6s", "KIND");
    if (is_live(o))
        printf(" %10s %12s %-7s", "NOW", "BYTES", "DO");
    printf("  SEGMENT\n");
    for (size_t i = 0; i < p->n; i++)
        print_row(o, p, i);
    printf("\n%-9s %14s       %14s  %s\n", "", "MEMORY", "",
           "READS WASTED BY A LOOKUP OF AN ABSENT KEY");
    snprintf(text, sizeof(text), "of %llu runs; filters of any size: %.4g",
             LLU(s->n_runs), s->best.ideal_reads);
    print_totals_of("planned", s->best.file_bytes, s->best.reads, text);
    if (o->kind != KIND_SMALLER && p->smaller.n_runs > 0)
        print_totals_of("smaller", p->smaller.best.file_bytes, p->smaller.best.reads,
                        "ribbons where they take less: --kind smaller");
    if (given(o, OPT_KIND) && o->kind != TAMIS_BLOOM && p->bloom.n_runs > 0)
        print_totals_of("bloom", p->bloom.best.file_bytes, p->bloom.best.reads,
                        "Bloom filters alone, which are quicker to ask");
    if (s->uniform_error < 1)
        snprintf(text, sizeof(text), "one error for all, %s; of any size: %.4g",
                 PERCENT(s->uniform_error), s->uniform.ideal_reads);
    else
        snprintf(text, sizeof(text), "one error for all: none at 50%%; any size: %.4g",
                 s->uniform.ideal_reads);
    print_totals_of("uniform", s->uniform.file_bytes, s->uniform.reads, text);
    snprintf(text, sizeof(text), "allocated; the files are %s long",
             SIZE(p->length_now));
    if (is_live(o))
        print_totals_of("now", p->bytes_now, p->reads_now,
                        p->length_now == p->bytes_now ? "" : text);
    printf("%-9s %s of the reads of uniform filters\n", "saves", PERCENT(saving(p)));
    if (p->n_bare > 0)
        printf("%-9s %llu without a filter, read every time: not planned\n", "bare",
               LLU(p->n_bare));
    if (p->n_packed > 0)
        printf("%-9s %llu in packs, without files of their own: not planned; 'tamis "
               "plan STORE --pack' is for these\n",
               "packed", LLU(p->n_packed));
    for (size_t i = 0; i < p->n; i++)
        if (p->segments[i].unread != NULL)
            printf("%-9s %s: %s\n", "unread", p->segments[i].name,
                   p->segments[i].unread);
}

/* ---- for programs ---- */

static json_t *total_json(const struct tamis_plan_total *t)
{
    return json_of("filters", json_count(t->n_filters), "bytes",
                   json_count(t->file_bytes), "reads", json_number(t->reads),
                   "ideal_reads", json_number(t->ideal_reads));
}

static json_t *row_json(const struct options *options, const struct store_plan *p,
                        size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    json_t *o = memory_or_exit(json_object());
    if (s->name != NULL)
        json_put(o, "segment", memory_or_exit(json_string(s->name)));
    if (s->has_rank)
        json_put(o, "rank", json_count(s->rank));
    json_add(o, "run", json_count(p->sizes[i].run), "keys", json_count(s->keys),
             "ideal_error", json_number(to->ideal_error));
    if (to->plan.file_bytes > 0)
        json_add(o, "fpr", json_number(to->error), "error", json_number(to->plan.error),
                 "kind", json_string(kind_name(to)));
    if (to->plan.lanes > 0)
        json_add(o, "lanes", json_count(to->plan.lanes), "words",
                 json_count(to->plan.words), "blocks", json_count(to->plan.n_blocks));
    json_put(o, "bytes", json_count(to->plan.file_bytes));
    if (is_live(options)) {
        json_add(o, "state", json_string(state_name(s->state)), "bytes_now",
                 json_count(s->bytes_now), "length_now", json_count(s->length_now),
                 "error_now", json_number(s->error_now), "action",
                 json_string(plan_action_name(plan_action(p, i))));
        if (s->unread != NULL)
            json_put(o, "unread", memory_or_exit(json_string(s->unread)));
    }
    return o;
}

static void print_json(const struct options *o, const struct store_plan *p)
{
    const struct tamis_plan_summary *s = &p->summary;
    json_t *root = json_of(
        "runs", json_count(s->n_runs), "planned", total_json(&s->best), "uniform",
        json_add(total_json(&s->uniform), "fpr", json_number(s->uniform_error)));
    if (p->bloom.n_runs > 0)
        json_put(root, "bloom", total_json(&p->bloom.best));
    if (p->smaller.n_runs > 0)
        json_put(root, "smaller", total_json(&p->smaller.best));
    json_put(root, "saving", json_number(saving(p)));
    if (is_live(o))
        json_add(root, "bare", json_count(p->n_bare), "packed", json_count(p->n_packed),
                 "bytes_now", json_count(p->bytes_now), "length_now",
                 json_count(p->length_now), "reads_now", json_number(p->reads_now));
    json_t *list = json_stream(root, "segments");
    for (size_t i = 0; i < p->n; i++)
        json_put(list, NULL, row_json(o, p, i));
    json_end(NULL);
}

/* ---- the command ---- */

/* kind 0: each filter is of the kind that takes less. */
static int plan_kind(const struct options *o, struct store_plan *p, uint32_t kind,
                     struct tamis_plan_summary *summary)
{
    double reads = given(o, OPT_READS) ? o->reads : 0;
    if (given(o, OPT_READS) && reads == 0) /* the library takes 0 for no limit */
        return TAMIS_ERR_RANGE;
    return tamis_plan_store(p->sizes, p->n, o->n_bytes, reads, kind, p->shares,
                            summary);
}

/* Both ways are planned, for they are shown beside each other, unless that would take
 * seconds. The shares are those of the last plan, of the kind that was asked for. */
static int allocate(const struct options *o, struct store_plan *p)
{
    enum { FEW = 256 };
    uint32_t kind = o->kind == 0              ? TAMIS_BLOOM
                    : o->kind == KIND_SMALLER ? 0
                                              : (uint32_t)o->kind;
    if (kind != TAMIS_BLOOM && p->n <= FEW)
        plan_kind(o, p, TAMIS_BLOOM, &p->bloom);
    if (kind != 0 && p->n <= FEW)
        plan_kind(o, p, 0, &p->smaller);
    int err = plan_kind(o, p, kind, &p->summary);
    if (kind == TAMIS_BLOOM)
        p->bloom = p->summary;
    if (kind == 0)
        p->smaller = p->summary;
    if (err == TAMIS_ERR_RANGE && given(o, OPT_READS))
        return complain_error(err, NULL, "plan",
                              "no filters waste so few: take more --reads");
    if (err != 0)
        return complain_error(err, NULL, "plan", NULL);
    count_now(p);
    /* Would filters that stay a little larger than planned take the store over --bytes?
     */
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        n_bytes += plan_is_larger(p, p->segments[i].bytes_now, i)
                       ? p->shares[i].plan.file_bytes
                       : p->segments[i].bytes_now;
    p->is_tight = is_live(o) && given(o, OPT_BYTES) && n_bytes > o->n_bytes;
    return EXIT_DONE;
}

static void check(const struct options *o)
{
    if (given(o, OPT_SIZES) && o->n_args > 0)
        usage_error("--sizes and STORE exclude each other");
    if (o->n_args > 1)
        usage_error("unexpected argument '%s'", o->args[1]);
    if (o->n_args == 1 && o->args[0][0] == '\0')
        usage_error("STORE is a path, and this one is empty");
    if ((o->given & (WITH(OPT_N_KEYS) | WITH(OPT_GROWTH) | GROWTH_OPTIONS)) != 0)
        usage_error("a plan of a store takes --bytes or --reads, no --keys, --fpr or "
                    "--growth");
    if (given(o, OPT_BYTES) + given(o, OPT_READS) != 1)
        usage_error("give one of --bytes and --reads");
    if (given(o, OPT_RUNS) && given(o, OPT_LEVELS))
        usage_error("--runs and --levels exclude each other");
    if (given(o, OPT_APPLY) && given(o, OPT_SIZES))
        usage_error("--apply is for a STORE");
    if (given(o, OPT_APPLY) && given(o, OPT_JSON))
        usage_error("--apply and --json exclude each other");
    if (given(o, OPT_SVG) && strcmp(o->svg, "-") == 0 &&
        (given(o, OPT_JSON) || given(o, OPT_APPLY)))
        usage_error("--svg - leaves no room for other output");
}

static int show(struct tamis_store *store, struct tamis_snapshot *snapshot,
                const struct options *o, struct store_plan *p)
{
    int status = allocate(o, p);
    if (status == EXIT_DONE && given(o, OPT_SVG))
        status = plan_picture(o, p);
    if (status != EXIT_DONE)
        return status;
    if (given(o, OPT_APPLY))
        status = plan_apply(store, snapshot, o, p);
    else if (given(o, OPT_JSON))
        print_json(o, p);
    else if (!given(o, OPT_SVG) || strcmp(o->svg, "-") != 0)
        print_plan(o, p);
    if (status != EXIT_DONE || p->n_unread == 0)
        return status;
    /* Unread filters are planned by the keys of the list, as if they answered nothing.
     */
    return complain(
        p->unread_status,
        "%s: %s cannot be read, and count%s as none: 'tamis verify' tells more",
        o->args[0], COUNTED(p->n_unread, "filter"), p->n_unread == 1 ? "s" : "");
}

int plan_store(const struct options *o)
{
    struct tamis_snapshot *snapshot = NULL;
    struct tamis_store *store = NULL;
    struct store_plan p = {0};
    check(o);
    check_picture(o, o->n_args > 0 ? o->args[0] : NULL, o->sizes);
    int status = plan_read(o, &store, &snapshot, &p);
    if (status == EXIT_DONE)
        status = show(store, snapshot, o, &p);
    plan_free(&p);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return status;
}
