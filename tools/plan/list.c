/* The segments that `tamis plan` divides memory over, of a store or of a list, and
 * which of them are a run: what a lookup reads at most one of. */
#include <sys/stat.h>

#include "inside.h"

/* ---- runs ---- */

static int compare_bytes(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b)
{
    int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order != 0 ? order : (n_a > n_b) - (n_a < n_b);
}

/* Sorts by rank, then by first key; segments without one come last. */
static int by_rank(const void *left, const void *right)
{
    const struct planned *a = left, *b = right;
    if (a->has_rank != b->has_rank)
        return b->has_rank - a->has_rank;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->first_key == NULL || b->first_key == NULL)
        return (a->first_key == NULL) - (b->first_key == NULL);
    return compare_bytes(a->first_key, a->first_key_bytes, b->first_key,
                         b->first_key_bytes);
}

static bool same_rank(const struct planned *a, const struct planned *b)
{
    return a->has_rank && b->has_rank && a->rank == b->rank;
}

/* A run of disjoint ranges goes on with the next segment that begins behind its end. If
 * many overlap, only the latest runs are tried: a run too many does no harm. */
static void runs_by_range(struct store_plan *p)
{
    enum { OPEN = 64 };
    size_t ends[OPEN] = {0}, n_open = 0, n_runs = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct planned *s = &p->segments[i];
        size_t k = 0;
        if (i == 0 || !same_rank(s, s - 1))
            n_open = 0;
        for (; k < n_open && s->first_key != NULL; k++) {
            const struct planned *end = &p->segments[ends[k]];
            if (compare_bytes(end->last_key, end->last_key_bytes, s->first_key,
                              s->first_key_bytes) < 0)
                break;
        }
        if (s->first_key != NULL && k < n_open) {
            p->sizes[i].run = p->sizes[ends[k]].run;
            ends[k] = i;
            continue;
        }
        p->sizes[i].run = n_runs++;
        if (s->first_key != NULL)
            ends[n_open < OPEN ? n_open++ : i % OPEN] = i;
    }
}

static void find_runs(const struct options *o, struct store_plan *p)
{
    if (p->n > 0)
        qsort(p->segments, p->n, sizeof(*p->segments), by_rank);
    p->sizes = memory_or_exit(calloc(p->n + 1, sizeof(*p->sizes)));
    p->shares = memory_or_exit(calloc(p->n + 1, sizeof(*p->shares)));
    runs_by_range(p);
    for (size_t i = 0; i < p->n; i++) {
        p->sizes[i].n_keys = p->segments[i].keys;
        if (given(o, OPT_RUNS))
            p->sizes[i].run = i;
        else if (given(o, OPT_LEVELS))
            p->sizes[i].run = i > 0 && same_rank(&p->segments[i], &p->segments[i - 1])
                                  ? p->sizes[i - 1].run
                                  : i;
    }
}

static struct planned *plan_add(struct store_plan *p, size_t *max)
{
    if (p->n == *max) {
        *max = 2 * *max + 64;
        p->segments = memory_or_exit(realloc(p->segments, *max * sizeof(*p->segments)));
    }
    p->segments[p->n] = (struct planned){0};
    return &p->segments[p->n++];
}

static void free_segment(struct planned *s)
{
    free(s->name);
    free(s->word);
    free(s->unread);
}

/* Keeps only the keys of the last segment: a plan of a pack needs nothing else. */
static void keep_keys(struct store_plan *p)
{
    struct planned *s = &p->segments[--p->n];
    if ((p->n_keys & (p->n_keys - 1)) == 0) /* a power of two is full */
        p->keys =
            memory_or_exit(realloc(p->keys, (2 * p->n_keys + 1) * sizeof(*p->keys)));
    p->keys[p->n_keys++] = s->keys;
    free_segment(s);
}

/* ---- a list ---- */

/* KEYS [RANK [NAME]]; the name is the rest of the line. */
static bool parse_line(const void *line, size_t n, struct planned *s)
{
    const char *end = (const char *)line + n;
    char *text, *at, *word;
    uint64_t rank = 0;
    while (n > 0 && (end[-1] == ' ' || end[-1] == '\t'))
        end--, n--;
    at = text = memory_or_exit(strndup(line, n));
    bool good = strlen(text) == n && (word = strsep(&at, " \t")) != NULL &&
                parse_number(word, NUMBER_COUNT, &s->keys) &&
                s->keys <= UINT64_C(1) << 48;
    if (good && at != NULL) {
        word = strsep(&at, " \t");
        good = parse_number(word, NUMBER_PLAIN, &rank) && rank <= UINT32_MAX;
        s->has_rank = true;
        s->rank = (uint32_t)rank;
    }
    if (good && at != NULL)
        s->name = escape(at, strlen(at));
    free(text);
    return good;
}

/* Segments of one rank may be a run or several; only the list's author knows. */
static int check_ranks(const struct options *o, const struct store_plan *p)
{
    if (given(o, OPT_RUNS) || given(o, OPT_LEVELS))
        return EXIT_DONE;
    for (size_t i = 1; i < p->n; i++)
        if (same_rank(&p->segments[i], &p->segments[i - 1]))
            return complain(EXIT_USAGE,
                            "%s: several segments of rank %lu: --levels if a lookup "
                            "reads at most one of them, --runs if it may read each",
                            o->sizes, (unsigned long)p->segments[i].rank);
    return EXIT_DONE;
}

static int plan_from_list(const struct options *o, struct store_plan *p)
{
    struct key_reader *lines;
    const void *line;
    size_t max = 0, n_bytes;
    uint64_t number = 0;
    int status = lines_open(o->sizes, "list of sizes", &lines), more = 1;
    if (status != EXIT_DONE)
        return status;
    while (status == EXIT_DONE && (more = keys_next(lines, &line, &n_bytes)) == 1) {
        number++;
        if (n_bytes == 0)
            continue;
        if (!parse_line(line, n_bytes, plan_add(p, &max)))
            status = complain(EXIT_USAGE,
                              "%s: line %llu: '%s': a line is KEYS [RANK [NAME]], up "
                              "to 2^48 keys (k, "
                              "M, G and T are powers of 1000) and rank 4294967295",
                              o->sizes, LLU(number),
                              NAME(line, n_bytes < 40 ? n_bytes : 40));
        if (given(o, OPT_PACK))
            keep_keys(p);
    }
    if (more < 0)
        status = keys_status(lines);
    keys_close(lines);
    if (status != EXIT_DONE)
        return status;
    /* A failed command's list is empty, and its plan would look like a good one. */
    if (p->n + p->n_keys == 0)
        return complain(EXIT_USAGE,
                        "%s: no segment is in this list: nothing was planned",
                        strcmp(o->sizes, "-") == 0 ? "standard input" : o->sizes);
    find_runs(o, p);
    return check_ranks(o, p);
}

/* ---- a store ---- */

/* A store that is looked at, in one snapshot. */
struct look {
    const struct options *o;
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    size_t max;
    bool moved; /* some segment, meanwhile */
};

/* Reads the current figures of a filter. A lookup reads every segment whose filter does
 * not open. */
static int look_inside(struct tamis_snapshot *snapshot, struct planned *s)
{
    struct tamis_diag diag = {0};
    struct tamis_filter_info info;
    struct tamis_filter *filter;
    int err = tamis_snapshot_filter(snapshot, s->index, &filter, &diag);
    s->error_now = s->error_folded = 1;
    if (err == 0)
        err = tamis_filter_info(filter, &info, NULL);
    if (err != 0) {
        const char *what = diag.code != 0 ? diag.what : tamis_strerror(err);
        s->unread = escape(what, strlen(what));
        tamis_filter_close(filter);
        return err;
    }
    s->error_now = info.expected_error;
    s->length_now = info.file_bytes;
    s->only = info.stages[0];
    s->is_ribbon = s->only.lanes == 0;
    if (info.sealed && !s->is_ribbon)
        tamis_filter_least_fold(filter, &s->error_folded, NULL); /* 1 if it fails */
    if (info.n_stages > 1)
        s->only = (struct tamis_stage_info){0};
    if (info.keys > s->keys)
        s->keys = info.keys;
    tamis_filter_close(filter);
    return 0;
}

static void add_filter(struct look *l, struct store_plan *p, size_t index,
                       const struct tamis_segment_info *info)
{
    const char *store = l->o->args[0];
    struct planned *s = plan_add(p, &l->max);
    *s = (struct planned){
        .name = escape(info->name, info->name_bytes),
        .word = shell_word(info->name, info->name_bytes),
        .keys = info->keys,
        .rank = info->rank,
        .has_rank = true,
        .index = index,
        .state = info->state,
        .first_key = info->first_key,
        .last_key = info->last_key,
        .first_key_bytes = info->first_key_bytes,
        .last_key_bytes = info->last_key_bytes,
        .bytes_now = allocated_bytes(store, l->snapshot, index, info),
    };
    int err = look_inside(l->snapshot, s);
    struct stat st;
    bool lost = !stat_in(store, info->file, &st) && errno == ENOENT;
    if ((lost || err == ENOENT) && segment_fate(l->store, info) != SEGMENT_STAYS) {
        l->moved = true;
        free_segment(s);
        p->n--;
        return;
    }
    if (err != 0 && p->n_unread++ == 0)
        p->unread_status = status_unread(err);
    if (s->length_now == 0)
        s->length_now = info->file_bytes;
    if (lost)
        s->bytes_now = s->length_now = 0;
    if (given(l->o, OPT_PACK))
        keep_keys(p);
}

static int add_segment(struct look *l, struct store_plan *p, size_t index)
{
    struct tamis_segment_info info;
    bool column = is_column(l->snapshot, index, NULL);
    int err = tamis_snapshot_segment(l->snapshot, index, &info);
    if (err != 0)
        return complain_error(err, NULL, l->o->args[0], NULL);
    if (info.name == NULL) {
        p->n_unread++;
        p->unread_status = EXIT_DAMAGE;
    } else if (info.state != TAMIS_SEGMENT_SEALED &&
               info.state != TAMIS_SEGMENT_GROWING)
        p->n_bare++;
    else if (!column)
        add_filter(l, p, index, &info);
    else if (!given(l->o, OPT_PACK))
        p->n_packed++;
    else {
        plan_add(p, &l->max)->keys = info.keys;
        keep_keys(p);
    }
    return EXIT_DONE;
}

/* A file that is gone may be that of a segment which another process dropped, replaced
 * or packed meanwhile. Then a newer snapshot is planned. After some of these, the
 * segments that keep moving are left out. */
static int plan_from_store(struct tamis_store *store, struct tamis_snapshot **snapshot,
                           const struct options *o, struct store_plan *p)
{
    unsigned tries = 0;
    for (;;) {
        struct look l = {.o = o, .store = store, .snapshot = *snapshot};
        int status = EXIT_DONE;
        for (size_t i = 0; status == EXIT_DONE && tamis_snapshot_next(*snapshot, &i);
             i++)
            status = add_segment(&l, p, i);
        if (status != EXIT_DONE)
            return status;
        if (!l.moved || !newer_snapshot(store, snapshot, &tries))
            break;
        plan_free(p);
        *p = (struct store_plan){0};
    }
    find_runs(o, p);
    return EXIT_DONE;
}

int plan_read(const struct options *o, struct tamis_store **store,
              struct tamis_snapshot **snapshot, struct store_plan *p)
{
    if (given(o, OPT_SIZES))
        return plan_from_list(o, p);
    store_snapshot(o->args[0], store, snapshot);
    return plan_from_store(*store, snapshot, o, p);
}

void plan_free(struct store_plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        free_segment(&p->segments[i]);
    free(p->keys);
    free(p->segments);
    free(p->sizes);
    free(p->shares);
}
