/* tamis plan: how large for how many keys at what error. */
#include <math.h>

#include "../plan/plan.h"
#include "command.h"

#define STORE_OPTIONS                                                                  \
    (WITH(OPT_SIZES) | WITH(OPT_READS) | WITH(OPT_RUNS) | WITH(OPT_LEVELS) |           \
     WITH(OPT_APPLY) | WITH(OPT_SVG) | WITH(OPT_KIND))

/* ---- why so many lanes and words ---- */

enum { MOST_LANES = 4, MOST_WORDS = 8, BLOCK = 64 };

/* Cache lines that a lookup of an absent key touches in a stage, expected: a lane is
 * one, and where it errs the next one is asked. */
static double lines_of(uint32_t lanes, double error)
{
    double lane = pow(error, 1.0 / lanes), lines = 0, reached = 1;
    for (uint32_t i = 0; i < lanes; i++) {
        lines += reached;
        reached *= lane;
    }
    return lines;
}

struct shape {
    uint32_t words;
    uint64_t blocks; /* of a lane; 0: none is large enough */
};

/* The fewest blocks a lane at which these words meet the error, if below `most`. */
static uint64_t least_blocks(uint32_t lanes, uint32_t words, uint64_t keys,
                             double error, uint64_t most)
{
    uint64_t low = 0, high = most;
    if (tamis_plan_error(lanes, words, high, keys) > error)
        return 0;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (tamis_plan_error(lanes, words, middle, keys) <= error)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The chosen one keeps its blocks, of which other filters have as many. */
static struct shape smallest(const struct tamis_plan *chosen, uint32_t lanes,
                             double error)
{
    struct shape best = {0, UINT64_C(1) << 32};
    bool any = false;
    if (lanes == chosen->lanes)
        return (struct shape){chosen->words, chosen->n_blocks};
    for (uint32_t words = 1; words <= MOST_WORDS; words++) {
        uint64_t n = least_blocks(lanes, words, chosen->n_keys, error, best.blocks);
        if (n == 0 || (any && n == best.blocks))
            continue;
        best = (struct shape){words, n};
        any = true;
    }
    return any ? best : (struct shape){0};
}

/* For each number of lanes the smallest filter that meets the error: an object in the
 * list, or (NULL) a row of a table. */
static void show_lanes(const struct tamis_plan *chosen, double error, json_t *list)
{
    if (list == NULL)
        printf(
            "\nlanes words       bits bytes  bits/key  lines an absent key touches\n");
    for (uint32_t lanes = 1; lanes <= MOST_LANES; lanes++) {
        struct shape s = smallest(chosen, lanes, error);
        uint64_t n_bytes = s.blocks * lanes * BLOCK;
        double per_key =
            chosen->n_keys ? 8 * (double)n_bytes / (double)chosen->n_keys : 0;
        bool is_chosen = lanes == chosen->lanes;
        if (s.blocks == 0)
            continue;
        /* By the error of this shape, which may be far below the one asked for. */
        double lines =
            lines_of(lanes, tamis_plan_error(lanes, s.words, s.blocks, chosen->n_keys));
        if (list != NULL)
            json_put(list, NULL,
                     json_of("lanes", json_count(lanes), "words", json_count(s.words),
                             "bits_bytes", json_count(n_bytes), "bits_per_key",
                             json_number(per_key), "lines", json_number(lines),
                             "chosen", json_boolean(is_chosen)));
        else
            printf("%5u %5u %16llu %9.3f  %.2f%s\n", lanes, s.words, LLU(n_bytes),
                   per_key, lines,
                   is_chosen ? "  the fewest lanes within 4% of the least" : "");
    }
}

/* ---- one filter ---- */

/* The least --bytes that give a plan: a few pages. 0: more bytes would not help. */
static uint64_t least_bytes(const struct options *o)
{
    struct tamis_plan_options opt = {.size = sizeof opt, .most_bytes = 4096};
    struct tamis_plan plan;
    for (; opt.most_bytes <= 65536; opt.most_bytes += 4096)
        if (tamis_plan_filter(o->n_keys, o->growth.error, &opt, &plan) == 0)
            return opt.most_bytes > o->n_bytes ? opt.most_bytes : 0;
    return 0;
}

static int range_error(const struct options *o, int err)
{
    const char *advice = NULL;
    uint64_t least = given(o, OPT_BYTES) ? least_bytes(o) : 0;
    if (err == TAMIS_ERR_RANGE && least > 0)
        usage_error("--bytes is at least %llu, not %llu", LLU(least), LLU(o->n_bytes));
    if (err == TAMIS_ERR_RANGE && given(o, OPT_BYTES) && o->n_keys == 0)
        usage_error("--keys is at least 1, not 0");
    if (err == TAMIS_ERR_RANGE)
        advice = given(o, OPT_BYTES) ? "take fewer --bytes" : "--fpr is 1e-8..0.5";
    if (err == TAMIS_ERR_TOO_LARGE)
        advice = given(o, OPT_BYTES)
                     ? "take fewer --bytes, or split them over several filters"
                     : "take fewer --keys, or split them over several filters";
    return complain_error(err, NULL, "plan", advice);
}

static json_t *plan_json(const struct tamis_plan *p)
{
    return json_of("keys", json_count(p->n_keys), "error", json_number(p->error),
                   "lanes", json_count(p->lanes), "words", json_count(p->words),
                   "blocks", json_count(p->n_blocks), "bits_bytes",
                   json_count(p->bits_bytes), "file_bytes", json_count(p->file_bytes),
                   "bits_per_key", json_number(p->bits_per_key));
}

static void print_plan(const struct tamis_plan *p)
{
    printf("keys          %llu\n", LLU(p->n_keys));
    printf("error         %.6g\n", p->error);
    printf("lanes         %u\n", p->lanes);
    printf("words         %u\n", p->words);
    printf("blocks        %llu per lane\n", LLU(p->n_blocks));
    printf("bits          %llu bytes (%s)\n", LLU(p->bits_bytes), SIZE(p->bits_bytes));
    printf("file          %llu bytes (%s)\n", LLU(p->file_bytes), SIZE(p->file_bytes));
    printf("bits per key  %.3f\n", p->bits_per_key);
}

static int plan_one(const struct options *o)
{
    struct tamis_plan_options opt = {.size = sizeof opt, .most_bytes = o->n_bytes};
    struct tamis_plan_options as_ribbon = {.size = sizeof opt, .kind = TAMIS_RIBBON};
    struct tamis_plan plan, ribbon;
    bool by_bytes = given(o, OPT_BYTES);
    if (given(o, OPT_N_KEYS) + given(o, OPT_FPR) + given(o, OPT_BYTES) != 2)
        usage_error("give two of --keys, --fpr and --bytes for the third");
    int err = by_bytes && !o->n_bytes
                  ? TAMIS_ERR_RANGE
                  : tamis_plan_filter(o->n_keys, o->growth.error, &opt, &plan);
    if (err != 0)
        return range_error(o, err);
    /* The same keys at the same error in a ribbon: `tamis build --kind ribbon`. */
    bool has_ribbon = !by_bytes && tamis_plan_filter(o->n_keys, o->growth.error,
                                                     &as_ribbon, &ribbon) == 0;
    json_t *object = given(o, OPT_JSON) ? plan_json(&plan) : NULL, *list = NULL;
    if (object == NULL)
        print_plan(&plan);
    if (has_ribbon && object == NULL)
        printf("as a ribbon   %llu bytes (%s), %.3f bits per key\n",
               LLU(ribbon.file_bytes), SIZE(ribbon.file_bytes), ribbon.bits_per_key);
    if (!by_bytes && object != NULL)
        json_put(object, "by_lanes", list = json_array());
    if (has_ribbon && object != NULL)
        json_put(object, "ribbon",
                 json_of("error", json_number(ribbon.error), "bits_bytes",
                         json_count(ribbon.bits_bytes), "file_bytes",
                         json_count(ribbon.file_bytes), "bits_per_key",
                         json_number(ribbon.bits_per_key)));
    if (!by_bytes)
        show_lanes(&plan, o->growth.error, list);
    if (object != NULL)
        json_print(object);
    return EXIT_DONE;
}

/* One line per stage: up to --keys, else the first ten. It has the sums of all stages
 * up to it when it is full. */
static int plan_growth(const struct options *o)
{
    struct tamis_growth growth = {
        .error = o->growth.error > 0 ? o->growth.error : 0.01,
        .factor = o->growth.factor > 0 ? o->growth.factor : 1.9,
        .tightening = o->growth.tightening > 0 ? o->growth.tightening : 0.85,
        .first_capacity = o->growth.first_capacity ? o->growth.first_capacity : 50000};
    uint64_t keys = 0, bytes = 0, left;
    double kept = 1; /* no stage errs */
    double lines = 0;
    json_t *list = given(o, OPT_JSON) ? memory_or_exit(json_array()) : NULL;
    uint32_t max = given(o, OPT_N_KEYS) ? 30 : 10;
    if (given(o, OPT_BYTES))
        usage_error("--growth takes --keys, --fpr, -s, -r and --n0, no --bytes");
    if (list == NULL)
        printf("stage lanes words         keys          sum       bits bytes  bits/key "
               "of all lines  error        sum\n");
    for (uint32_t i = 0; i < max && (!given(o, OPT_N_KEYS) || keys < o->n_keys); i++) {
        struct tamis_plan p;
        int err = tamis_plan_stage(&growth, i, &p);
        if (err == TAMIS_ERR_TOO_LARGE && i > 0)
            break;
        if (err != 0) {
            json_decref(list);
            return range_error(o, err);
        }
        keys += p.n_keys;
        bytes += p.bits_bytes;
        kept *= 1 - p.error;
        lines += lines_of(p.lanes, p.error);
        double per_key = 8 * (double)bytes / (double)keys;
        if (list != NULL)
            json_put(list, NULL,
                     json_add(plan_json(&p), "sum_keys", json_count(keys),
                              "sum_bits_per_key", json_number(per_key), "sum_lines",
                              json_number(lines), "sum_error", json_number(1 - kept)));
        else
            printf("%5u %5u %5u %12llu %12llu %16llu %9.3f %6.3f %5.2f  %-11.6g  "
                   "%.6g\n",
                   i, p.lanes, p.words, LLU(p.n_keys), LLU(keys), LLU(p.bits_bytes),
                   p.bits_per_key, per_key, lines, p.error, 1 - kept);
    }
    left = given(o, OPT_N_KEYS) && keys < o->n_keys ? o->n_keys - keys : 0;
    if (list == NULL && left > 0)
        printf("no more stages: the last one takes the other %s, above its error\n",
               COUNTED(left, "key"));
    if (list != NULL) {
        json_t *root = json_of("error", json_number(growth.error), "factor",
                               json_number(growth.factor), "tightening",
                               json_number(growth.tightening), "n0",
                               json_count(growth.first_capacity));
        if (left > 0)
            json_put(root, "keys_left", json_count(left));
        json_put(root, "stages", list);
        json_print(root);
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct options o;
    parse_options(argc, argv, 0, 0, &o);
    if (given(&o, OPT_PACK))
        return plan_packs(&o);
    if (o.n_args > 0 || given(&o, OPT_SIZES))
        return plan_store(&o);
    if ((o.given & STORE_OPTIONS) != 0)
        usage_error("--reads, --runs, --levels, --kind, --apply and --svg are for a "
                    "STORE or --sizes");
    if (given(&o, OPT_GROWTH))
        return plan_growth(&o);
    if (given(&o, OPT_FACTOR) || given(&o, OPT_TIGHTENING) || given(&o, OPT_FIRST))
        usage_error("-s, -r and --n0 are for --growth");
    return plan_one(&o);
}

const struct command cmd_plan = {
    .name = "plan",
    .arguments = "STORE --bytes B | --sizes FILE | --keys N --fpr P | --growth",
    .summary = "compute sizes and errors, of a filter or a store",
    .about = "Computes keys, error or size from the other two.\n",
    .options =
        {OPTION(N_KEYS), OPTION(FPR), OPTION(BYTES),
         OPTION(GROWTH, "stages of a growing filter; with --keys, --fpr, -s, -r, --n0"),
         OPTIONS(WITH(OPT_FACTOR) | WITH(OPT_TIGHTENING) | WITH(OPT_FIRST), NULL, ""),
         OPTIONS(0,
                 "errors that waste the fewest reads of absent keys in --bytes B, or "
                 "least memory for --reads R (0.02 a lookup)",
                 "STORE"),
         OPTIONS(WITH(OPT_READS), NULL, ""),
         OPTION(SIZES, "the same for a list of lines: KEYS [RANK [NAME]]"),
         OPTIONS(WITH(OPT_LEVELS) | WITH(OPT_RUNS),
                 "each rank is a run, or each segment; else key ranges decide. A "
                 "lookup reads one of a run. Packed ones are left out"),
         OPTION(KIND, "of a store or a list: bloom (default), ribbon, or smaller: of "
                      "each segment what takes less"),
         OPTION(PACK, "the pack of a list, a store or --keys, with --fpr"),
         OPTION(APPLY),
         OPTION(SVG, "draw the errors over the sizes; replaces only an SVG"),
         OPTION(JSON)},
    .examples = "tamis plan --keys 10M --fpr 1%\n"
                "tamis plan store --bytes 64K\n",
    .run = run,
};
