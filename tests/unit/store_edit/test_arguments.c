/* Arguments that are missing, of another size, or of another store are refused. */
#include "tests/support/store_support.h"

#define WRONG(call) IS(call, TAMIS_ERR_RANGE)
#define OTHER(call) IS(call, TAMIS_ERR_MISMATCH)

static struct tamis_diag diag;
static const size_t another_size = 3;
static const void *const odd = &another_size; /* options */

TEST_IN_DIR(of_stores)
{
    struct tamis_writer *writer;
    struct tamis_snapshot *snap;
    struct tamis_store *none;
    STORE s = store_new("s");
    WRONG(tamis_store_open(path_of("s"), NULL, NULL, &diag));
    WRONG(tamis_store_open(NULL, NULL, &none, &diag));
    WRONG(tamis_store_open("", NULL, &none, &diag));
    WRONG(tamis_store_repair(NULL, NULL, NULL, &diag));
    WRONG(tamis_store_repair("", NULL, NULL, &diag));
    WRONG(tamis_store_repair(path_of("s"), odd, NULL, &diag));
    WRONG(tamis_store_backup(s, NULL, NULL, NULL, &diag));
    WRONG(tamis_store_backup(s, "", NULL, NULL, &diag));
    WRONG(tamis_store_backup(s, path_of("b"), odd, NULL, &diag));
    WRONG(tamis_store_confirm(s, odd, &diag));
    WRONG(tamis_store_info(s, NULL, &diag));
    IS(tamis_store_domain(NULL).tag, 0);
    WRONG(tamis_store_writer(s, "g", 1, NULL, NULL, &diag));
    WRONG(tamis_store_writer(s, "g", 1, odd, &writer, &diag));
    WRONG(tamis_snapshot_current(s, NULL, &diag));
    WRONG(tamis_snapshot_from_filters(NULL, 0, 0, NULL));
    WRONG(tamis_snapshot_from_filters(NULL, 1, 0, &snap));
}

TEST_IN_DIR(of_snapshots)
{
    struct tamis_segment_stats one;
    struct tamis_segment_info info;
    struct tamis_pack_info pack;
    struct tamis_stats stats;
    struct tamis_filter *f;
    size_t index = 0, n;
    uint32_t found;
    uint64_t hash = 1, bits;
    STORE s = store_new("s");
    put_segment(s, "a", 0, 10);
    SNAPSHOT snap = snapshot_of(s), alone;
    struct tamis_key key = key_in(s, 1);
    struct tamis_target t = tamis_snapshot_target(snap, 0), u = t;
    tamis_snapshot_release(NULL);
    IS(tamis_snapshot_info(NULL).n_segments, 0);
    IS(tamis_snapshot_find(snap, NULL, 0, NULL, 0, 0, &u), TAMIS_ERR_NO_SEGMENT);
    assert_false(tamis_snapshot_next(NULL, &index));
    WRONG(tamis_snapshot_segment(snap, 0, NULL));
    WRONG(tamis_snapshot_segment(NULL, 0, &info));
    WRONG(tamis_snapshot_filter(snap, 0, NULL, &diag));
    WRONG(tamis_snapshot_filter(NULL, 0, &f, &diag));
    WRONG(tamis_snapshot_list(snap, 0, NULL, &diag));
    WRONG(tamis_snapshot_list(NULL, 0, &f, &diag));
    WRONG(tamis_snapshot_list(snap, 1, &f, &diag));
    WRONG(tamis_snapshot_pack_info(NULL, 0, &pack));
    WRONG(tamis_snapshot_segment_stats(NULL, 0, &one));
    WRONG(tamis_snapshot_report_false_positive(NULL, &t));
    IS(tamis_snapshot_target(NULL, 0).refusal, TAMIS_UNKNOWN_SEGMENT);
    IS(tamis_snapshot_carry(NULL, snap, &u, 1), 0);
    IS(tamis_snapshot_carry(snap, NULL, &u, 1), 0);
    IS(tamis_snapshot_find_many(snap, NAMED("a"), 1, 0, &u, NULL), 1);
    f = filter_at(snap, 0);
    OK(tamis_snapshot_from_filters(&f, 1, 0, &alone));
    WRONG(tamis_snapshot_stats(alone, 1, &stats));
    WRONG(tamis_snapshot_list(alone, 0, &f, &diag));
    IS(tamis_snapshot_query(snap, NULL, NULL), 0);
    IS(ASK(snap, LIST(NULL, 1), KEYS(&key, 1)), 0);
    IS(ASK(snap, LIST(&t, 1), KEYS(&key, 1), FOUND(&found, 1, &n)), 0);
    IS(ASK(snap, ALL, LIST(&t, 1), KEYS(&key, 1), .candidates = &found), 0);
    IS(ASK(NULL, LIST(&t, 1), HASHES(&hash, 1, key.tag), .absent = &bits), 0);
}

TEST_IN_DIR(of_edits)
{
    char scope[TAMIS_BINDING_MAX + 1];
    struct tamis_reconcile_options within = {
        .size = sizeof within, .scope = scope, .scope_bytes = sizeof scope};
    struct tamis_identity file = {"a", 1, scope, sizeof scope, NULL};
    struct tamis_packer *packer = (void *)1;
    struct tamis_edit *none = (void *)1;
    STORE s = store_new("s"), other = store_new("t");
    SNAPSHOT snap = snapshot_of(s), theirs = snapshot_of(other);
    struct tamis_edit *e = edit_new(s);
    BUILDER b = builder_in(e, "b", NULL);
    WRONG(tamis_edit_begin(s, odd, &none, &diag));
    WRONG(tamis_edit_begin(s, NULL, NULL, &diag));
    WRONG(tamis_edit_packer(e, odd, &packer, &diag));
    assert_false(none || packer);
    WRONG(tamis_edit_builder(e, "a", 1, 0, NULL, NULL, &diag));
    WRONG(tamis_edit_attach(e, "a", 1, NULL, NULL, &diag));
    WRONG(tamis_edit_from_list(e, snap, 0, 0, odd, &diag));
    OTHER(tamis_edit_from_list(e, NULL, 0, 0, NULL, &diag));
    OTHER(tamis_edit_from_list(e, theirs, 0, 0, NULL, &diag));
    WRONG(tamis_edit_update(e, "a", 1, odd, NULL, &diag));
    WRONG(tamis_edit_reconcile(e, snap, NULL, 0, odd, &diag));
    WRONG(tamis_edit_reconcile(e, snap, &file, 1, &within, &diag));
    WRONG(tamis_edit_reconcile(e, snap, &file, 1, NULL, &diag));
    WRONG(tamis_edit_reconcile(e, snap, NULL, 1, NULL, &diag));
    OTHER(tamis_edit_reconcile(e, NULL, NULL, 0, NULL, &diag));
    WRONG(tamis_edit_pack(e, NULL, NULL, 0, NULL, NULL, &diag));
    WRONG(tamis_edit_unpack(e, NULL, NULL, 0, &diag));
    WRONG(tamis_edit_unpack(e, snap, NULL, 1, &diag));
    WRONG(tamis_edit_unpack(e, theirs, NULL, 0, &diag));
    WRONG(tamis_packer_take(NULL, b, &diag));
    tamis_edit_abort(e);
}

TEST_IN_DIR(of_files)
{
    struct tamis_builder_options bits = {.size = sizeof bits, .list_bits = 65};
    struct tamis_plan_segment segment = {.n_keys = 10};
    struct tamis_plan_share share;
    struct tamis_filter *f;
    struct tamis_plan plan;
    struct tamis_writer *none;
    struct tamis_builder *no;
    uint64_t hash = 1, new;
    BUILDER b = builder_made(NULL);
    WRITER w = writer_made(path_of("w"), NULL);
    uint64_t tag = writer_info(w).domain.tag;
    WRONG(tamis_builder_create(&bits, &no, &diag));
    WRONG(tamis_builder_finish(b, NULL, NULL, NULL, &diag));
    WRONG(tamis_builder_finish(b, NULL, INTO(.list = 1), NULL, &diag));
    WRONG(
        tamis_builder_finish(b, NULL, INTO(.offset = UINT64_C(1) << 63), NULL, &diag));
    WRONG(tamis_builder_finish(b, path_of("l"), INTO(.list = 1), NULL, &diag));
    WRONG(tamis_list_merge(NULL, 1, path_of("l"), NULL, NULL, &diag));
    WRONG(tamis_list_merge(&f, 1, path_of("l"), odd, NULL, &diag));
    WRONG(tamis_filter_open(NULL, NULL, &f, &diag));
    WRONG(tamis_filter_open(NULL, odd, &f, &diag));
    WRONG(tamis_writer_open(path_of("w"), odd, &none, &diag));
    WRONG(tamis_writer_add_new(w, tag, NULL, 1, &new));
    WRONG(tamis_writer_add_new(w, tag, &hash, 1, NULL));
    OK(tamis_writer_add_new(w, tag, NULL, 0, NULL));
    WRONG(tamis_plan_filter(1, 0.01, odd, &plan));
    WRONG(tamis_plan_store(&segment, 1, 9, 0, TAMIS_PACK, &share, NULL));
    WRONG(tamis_plan_store(&segment, 1, 9, 0, TAMIS_RIBBON + 1, &share, NULL));
    IS(tamis_inline_ask(NULL, NULL, NULL), TAMIS_MAYBE);
    IS(tamis_inline_ask_few(NULL, 1, &hash, 1, &new, NULL), 0);
    IS(tamis_filter_probe(NULL, NULL, NULL), TAMIS_MAYBE);
    IS(tamis_key_of(&(struct tamis_domain){0}, "k", 1).tag, 0);
    assert_string_equal(tamis_reason_name(99), "UNREADABLE");
    assert_string_equal(tamis_strerror(-99), "unknown error");
    assert_string_equal(tamis_strerror(9999), "unknown errno");
}

RUN_TESTS(NULL, NULL)
