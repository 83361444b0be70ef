/* `tamis plan --pack`: how large a pack is, of how many lines, from files and from
 * keys. */
#include "inside.h"

static json_t *packed_json(const struct tamis_plan_packed *p)
{
    return json_of("rows_bytes", json_count(p->rows_bytes), "bits_per_key",
                   json_number(p->bits_per_key), "bands", json_count(p->n_bands),
                   "lines", json_count(p->n_lines));
}

static void print_packed(const char *what, const struct tamis_plan_packed *p)
{
    printf("%s  %s, %.3f bits per key, %s, %u lines a lookup touches\n", what,
           SIZE(p->rows_bytes), p->bits_per_key, COUNTED(p->n_bands, "band"),
           p->n_lines);
}

static int plan(const struct options *o, const uint64_t *keys, size_t n)
{
    struct tamis_plan_packed from_files, from_keys;
    double error = o->growth.error;
    uint64_t n_keys = 0;
    for (size_t i = 0; i < n; i++)
        n_keys += keys[i];
    int err = tamis_plan_pack(keys, n, error, 1, &from_files);
    if (err == 0)
        err = tamis_plan_pack(keys, n, error, 0, &from_keys);
    if (err == TAMIS_ERR_RANGE)
        return complain_error(err, NULL, "plan",
                              "a pack has 1 to 1048576 segments, of up to 4096 sizes");
    if (err != 0)
        return complain_error(err, NULL, "plan", "take fewer keys a segment");
    if (given(o, OPT_JSON)) {
        json_print(json_of("segments", json_count(n), "keys", json_count(n_keys),
                           "error", json_number(error), "files_bytes",
                           json_count(from_files.files_bytes), "from_files",
                           packed_json(&from_files), "from_keys",
                           packed_json(&from_keys)));
        return EXIT_DONE;
    }
    printf("segments         %llu, %llu keys\n", LLU(n), LLU(n_keys));
    printf("files            %s, %llu lines a lookup touches, one of each\n",
           SIZE(from_files.files_bytes), LLU(n));
    print_packed("packed           ", &from_files);
    print_packed("packed from keys ", &from_keys);
    return EXIT_DONE;
}

int plan_packs(const struct options *o)
{
    struct tamis_snapshot *snapshot = NULL;
    struct tamis_store *store = NULL;
    struct store_plan p = {0};
    if (!given(o, OPT_FPR))
        usage_error("--pack needs --fpr");
    if (given(o, OPT_N_KEYS) + given(o, OPT_SIZES) + (o->n_args > 0) != 1)
        usage_error("--pack needs one of --sizes, STORE and --keys");
    if (o->n_args > 1)
        usage_error("unexpected argument '%s'", o->args[1]);
    if ((o->given & ~(WITH(OPT_PACK) | WITH(OPT_FPR) | WITH(OPT_N_KEYS) |
                      WITH(OPT_SIZES) | WITH(OPT_JSON))) != 0)
        usage_error("--pack goes with --fpr, --sizes, --keys and --json only");
    if (given(o, OPT_N_KEYS))
        return plan(o, &o->n_keys, 1);
    int status = plan_read(o, &store, &snapshot, &p);
    if (status == EXIT_DONE)
        status = plan(o, p.keys, p.n_keys);
    plan_free(&p);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return status;
}
