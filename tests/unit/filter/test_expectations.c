/* Expectations that a reader may have of a file (R5): its names, its age, the watermark
 * that it must have reached, and keys of its domain. */
#include "tests/support/filters.h"

enum { N_KEYS = 50 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

static const uint8_t store_uuid[UUID_BYTES] = {9, 8, 7};

TEST(test_expectations)
{
    const char *path = path_of("expected");
    struct tamis_domain domain, other;
    tamis_domain_init(&domain, 1, 7);
    tamis_domain_init(&other, 1, 8);
    struct tamis_writer_options made = {.size = sizeof made,
                                        .growth = {.first_capacity = 100},
                                        .domain = &domain,
                                        .identity.name = "seg",
                                        .identity.name_bytes = 3,
                                        .identity.binding = "bind",
                                        .identity.binding_bytes = 4,
                                        .identity.store_uuid = store_uuid};
    struct tamis_writer *w = writer_made(path, &made);
    add_hashes(w, keys, 250);
    struct tamis_filter_info info = writer_info(w);
    assert_true(info.n_stages == 2);

    const struct tamis_filter_options good = {.size = sizeof good,
                                              .domain = &domain,
                                              .uuid = info.uuid,
                                              .identity.store_uuid = store_uuid,
                                              .identity.name = "seg",
                                              .identity.name_bytes = 3,
                                              .identity.binding = "bind",
                                              .identity.binding_bytes = 4,
                                              .min_sequence = info.sequence,
                                              .min_stages = 2};
    const uint8_t another[UUID_BYTES] = {1};
    struct tamis_filter_options bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].domain = &other;
    bad[1].uuid = another;
    bad[2].identity.store_uuid = another;
    bad[3].identity.name = "sag";
    bad[4].identity.name_bytes = 2;
    bad[5].identity.binding = "bond";
    bad[6].identity.binding_bytes = 0;
    bad[7].min_sequence++;
    bad[8].min_stages++;
    bad[9].table_digest = 1; /* it was sealed once, the catalog says */
    tamis_filter_close(open_as(path, &good));
    for (size_t i = 0; i < 10; i++) {
        struct tamis_diag diag = reader_refused(path, &bad[i], TAMIS_ERR_MISMATCH);
        assert_true(diag.what[0] && diag.file[0]);
    }
    OK(tamis_writer_close(w, NULL));
    struct tamis_filter_options odd = good;
    odd.check = 4;
    reader_refused(path, &odd, TAMIS_ERR_RANGE);
}

static void expect_behind(struct tamis_filter *f)
{
    enum tamis_reason why;
    uint64_t absent = ~UINT64_C(0);
    struct tamis_key key = {.tag = filter_domain(f).tag, .hash = keys[0]};
    IS(tamis_filter_probe(f, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_BEHIND);
    IS(tamis_filter_probe_batch(f, key.tag, keys, 64, &absent, &why), 0);
    IS(why, TAMIS_BEHIND);
    IS(absent, 0);
}

/* It will never catch up, and no page of it has to be checked first. */
TEST(test_behind_for_ever)
{
    const char *path = path_of("behind for ever");
    BUILD(path, keys, 0, .watermark = 9);
    FILTER f = OPEN_AS(path, .min_watermark = 10, .check = TAMIS_CHECK_NONE),
           good = OPEN_AS(path, .min_watermark = 9, .check = TAMIS_CHECK_NONE);
    expect_behind(f);
    IS(ask(good, keys[0], NULL), TAMIS_ABSENT);
}

TEST(test_behind_until_the_writer_catches_up)
{
    const char *path = path_of("behind");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 1000);
    FILTER f = OPEN_AS(path, .min_watermark = 10);
    expect_behind(f);
    OK(tamis_writer_commit(w, 9, NULL));
    expect_behind(f);
    add_hashes(w, keys + 100, 5000); /* growth alone is no progress */
    expect_behind(f);
    OK(tamis_writer_commit(w, 10, NULL));
    assert_true(count_absent(f, keys, 100) > 90);
    IS(count_absent(f, keys + 100, 5000), 0);
    OK(tamis_writer_close(w, NULL));
    /* The call may require more than the open did, and never less. */
    struct tamis_key key = {.tag = filter_domain(f).tag, .hash = 1};
    enum tamis_reason why;
    IS(filter_probe_from(f, 11, 0, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_BEHIND);
    IS(filter_probe_from(f, 5, 0, &key, &why), TAMIS_ABSENT);
}

TEST(test_foreign_keys_are_maybe)
{
    WRITER w = create_writer(path_of("foreign"), 0.01, 2, 1000);
    FILTER f = open_filter(path_of("foreign"));
    struct tamis_key key = {NULL, 0, 5, 0};
    enum tamis_reason why;
    uint64_t absent[2] = {~UINT64_C(0), ~UINT64_C(0)};
    IS(tamis_filter_probe(f, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_MISMATCH);
    IS(tamis_filter_probe_batch(f, 1, keys, 65, absent, &why), 0);
    assert_true(why == TAMIS_MISMATCH && absent[0] == 0 && absent[1] == 0);
    IS(tamis_filter_probe(NULL, &key, &why), TAMIS_MAYBE);
    IS(why, TAMIS_UNREADABLE);
    IS(tamis_filter_probe(f, NULL, &why), TAMIS_MAYBE);
    tamis_filter_close(NULL);
    OK(tamis_writer_close(NULL, NULL));
    tamis_builder_free(NULL);
}

RUN_TESTS(set_up, test_dir_remove)
