/* Reports the segments that `tamis build` has listed or `tamis drop` has dropped: one
 * line on stderr, or one object on stdout. */
#include "output.h"

static void add(struct closing *c, const struct tamis_segment_info *info)
{
    free(c->name);
    c->name = escape(info->name, info->name_bytes);
    c->n++;
    if (info->state != TAMIS_SEGMENT_BARE) {
        c->n_filters++;
        c->keys += info->keys;
        c->bytes += info->file_bytes;
        c->error = info->error > c->error ? info->error : c->error;
    }
    if (!c->json)
        return;
    if (c->list == NULL)
        c->list = memory_or_exit(json_array());
    json_t *o = json_of("segment", json_string(c->name), "state",
                        json_string(state_name(info->state)));
    if (info->state != TAMIS_SEGMENT_BARE)
        json_add(o, "keys", json_count(info->keys), "bytes",
                 json_count(info->file_bytes), "error", json_number(info->error));
    json_put(c->list, NULL, o);
}

void closing_listed(struct closing *c, const char *name, size_t n_bytes)
{
    struct tamis_segment_info info;
    struct tamis_target t;
    tamis_snapshot_find(c->snapshot, name, n_bytes, NULL, 0, 0, &t);
    if (t.ordinal > 0 && tamis_snapshot_segment(c->snapshot, t.ordinal - 1, &info) == 0)
        add(c, &info);
}

static void print_line(const struct closing *c, const char *verb)
{
    char what[1200];
    if (c->n == 1)
        snprintf(what, sizeof(what), "segment '%s'", c->name);
    else
        snprintf(what, sizeof(what), "%llu segments", LLU(c->n));
    if (c->n_filters == 0)
        progress_close("%s %s, without a filter", verb, what);
    else
        progress_close("%s %s: %s, %s, error %s%s", verb, what, COUNTED(c->keys, "key"),
                       SIZE(c->bytes), PERCENT(c->error), c->n > 1 ? " at most" : "");
}

void closing_end(struct closing *c, const struct options *o, const char *verb)
{
    work_is_done();
    if (c->json) {
        progress_clear();
        json_print(json_of("segments", c->list ? c->list : memory_or_exit(json_array()),
                           "keys", json_count(c->keys), "bytes", json_count(c->bytes)));
        c->list = NULL;
    } else if (!given(o, OPT_QUIET))
        print_line(c, verb);
}

void closing_free(struct closing *c)
{
    free(c->name);
    json_decref(c->list);
    tamis_snapshot_release(c->snapshot);
}

int closing_print(const struct options *o, struct tamis_store *store,
                  const struct name *names, size_t n, const char *verb)
{
    struct closing c = {.json = given(o, OPT_JSON)};
    struct tamis_diag diag = {0};
    if (tamis_snapshot_current(store, &c.snapshot, &diag) != 0)
        return complain(EXIT_IO, "%s: %s: the work is done, only its report is lost",
                        o->args[0], diag.what);
    for (size_t i = 0; i < n; i++)
        closing_listed(&c, names[i].bytes, names[i].n_bytes);
    closing_end(&c, o, verb);
    closing_free(&c);
    return EXIT_DONE;
}
