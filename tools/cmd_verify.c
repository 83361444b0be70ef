/* tamis verify: is every page of every filter whole, and every key in it? */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct verify {
    const struct options *o;
    struct tamis_snapshot *snapshot;
    struct tamis_domain domain;
    json_t *root, *list; /* NULL: text */
    uint64_t damaged;
    int status; /* the first that was not 0 */
    struct against against;
};

static void note(struct verify *v, int status)
{
    if (v->status == EXIT_DONE)
        v->status = status;
}

static void verify_segment(struct verify *v, size_t i)
{
    struct tamis_segment_info s;
    struct tamis_filter *filter;
    struct tamis_diag diag = {0};
    struct tamis_name name;
    char *path, what[320];
    int err = tamis_snapshot_segment(v->snapshot, i, &s), status;

    if (err != 0) {
        note(v, complain_error(err, NULL, v->o->args[0], NULL));
        return;
    }
    name = (struct tamis_name){s.name, s.name_bytes};
    if (s.state == TAMIS_SEGMENT_BARE) {
        verify_line(v->list, name, "bare", "", NULL, NULL);
        return;
    }
    path = need(malloc(strlen(v->o->args[0]) + strlen(s.file) + 2));
    sprintf(path, "%s/%s", v->o->args[0], s.file);
    err = tamis_snapshot_filter(v->snapshot, i, &filter, &diag);
    if (err == 0) {
        status = verify_one(filter, name, path, v->list);
    } else {
        snprintf(what, sizeof(what), "%s",
                 diag.what[0] ? diag.what : tamis_strerror(err));
        verify_line(v->list, name, err > 0 ? "lost" : "unreadable", path, what, NULL);
        status =
            complain_error(err, &diag, path, "build the segment anew from its keys");
        /* A registered filter that is gone is damage of the store. */
        status = err > 0 ? EXIT_DAMAGE : status;
    }
    v->damaged += status != EXIT_DONE;
    note(v, status);
    free(path);
}

struct one {
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
};

static size_t probe(void *ctx, uint64_t tag, const uint64_t *hashes, size_t n,
                    uint64_t *absent)
{
    struct one *one = ctx;
    enum tamis_reason why;

    return tamis_snapshot_probe_batch(one->snapshot, &one->target, tag, hashes, n,
                                      absent, &why);
}

static void check_list(struct verify *v, const char *keyfile, struct tamis_name name,
                       size_t index)
{
    struct one one = {v->snapshot, tamis_snapshot_target(v->snapshot, index)};

    note(v, against_list(&v->against, keyfile, v->o->format, &v->domain, name, probe,
                         &one));
}

/* --against-each: every key file against the segment of its name. */
static void verify_each(struct verify *v)
{
    const struct options *o = v->o;

    for (size_t i = 1; i < o->n_args; i++) {
        struct tamis_name name = name_of_file(o->args[i], o->strip);
        struct tamis_target target;
        int err = tamis_snapshot_find(v->snapshot, name.bytes, name.n_bytes, NULL, 0, 0,
                                      &target);

        if (err != 0) {
            char *text = escape(name.bytes, name.n_bytes);

            note(v,
                 complain(status_of_error(err), "%s: no segment '%s' for %s: build it",
                          o->args[0], text, o->args[i]));
            free(text);
            continue;
        }
        verify_segment(v, target.slot - 1);
        check_list(v, o->args[i], name, target.slot - 1);
    }
}

static int verify(struct verify *v)
{
    const struct options *o = v->o;
    size_t *picked = NULL, n = 0;

    if (given(o, OPT_AGAINST_EACH)) {
        verify_each(v);
        return v->status;
    }
    v->status =
        pick_segments(v->snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);
    for (size_t i = 0; i < n && picked != NULL; i++) {
        verify_segment(v, picked[i]);
        if (!output_works())
            break;
    }
    if (picked != NULL && given(o, OPT_AGAINST))
        check_list(v, o->against, (struct tamis_name){o->args[1], strlen(o->args[1])},
                   picked[0]);
    free(picked);
    return v->status;
}

static void finish(struct verify *v)
{
    const struct options *o = v->o;
    bool keys = given(o, OPT_AGAINST) || given(o, OPT_AGAINST_EACH);

    if (v->root != NULL) {
        json_put(v->root, "segments", v->list);
        json_put(v->root, "damaged_segments", json_count(v->damaged));
    }
    if (keys)
        note(v, against_end(&v->against, o->args[0], v->root));
    else
        json_decref(v->against.list);
    if (v->root != NULL)
        json_print(v->root);
}

static int run(int argc, char **argv)
{
    struct verify v = {0};
    struct tamis_store *store;
    struct options o;
    int status;

    parse_options(argc, argv,
                  KEY_FLAGS | WITH(OPT_AGAINST) | WITH(OPT_AGAINST_EACH) |
                      WITH(OPT_STRIP) | WITH(OPT_JSON),
                  1, 0, &o);
    if (given(&o, OPT_AGAINST) && (o.n_args != 2 || given(&o, OPT_AGAINST_EACH)))
        usage_error("--against checks one SEGMENT; --against-each many");
    if (given(&o, OPT_AGAINST_EACH) && o.n_args < 2)
        usage_error("--against-each needs key files");
    if (given(&o, OPT_STRIP) && !given(&o, OPT_AGAINST_EACH))
        usage_error("--strip is for --against-each");
    status = store_snapshot(o.args[0], &store, &v.snapshot);
    if (status != EXIT_DONE)
        return status;
    v.o = &o;
    v.domain = tamis_snapshot_domain(v.snapshot);
    if (given(&o, OPT_JSON)) {
        v.root = need(json_object());
        v.list = need(json_array());
        v.against.list = need(json_array());
    }
    progress_start("verify", 0);
    verify(&v);
    progress_clear();
    finish(&v);
    tamis_snapshot_release(v.snapshot);
    tamis_store_close(store);
    return v.status;
}

const struct command cmd_verify = {
    "verify",
    "STORE [SEGMENT...] | STORE SEGMENT --against KEYFILE | STORE --against-each "
    "KEYFILE...",
    "check every page, and every key",
    "Reads and checks every page of the filters, one line per segment: ok, bare (no\n"
    "filter), damaged, lost, unreadable. Damage costs disk reads, never keys.\n"
    "\n"
    "  --against KEYFILE        also: is every key of the list in the segment's "
    "filter?\n"
    "  --against-each           the same for each KEYFILE, with the segment of its "
    "name\n"
    "  --strip SUFFIX           remove this from the names\n"
    "  --json                   'tamis help json'\n"
    "  -0, --hex, --binary      what KEYFILE looks like: 'tamis help keys'\n",
    run};
