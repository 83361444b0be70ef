/* The golden store: its catalog and filters answer every key and segment of its list
 * exactly as when they were made. Worked on as a copy, since LMDB writes a lock file
 * beside the catalog. */
#include "tests/support/store_support.h"
#include "tests/golden/answers.h"

#define GOLDEN TAMIS_SOURCE_DIR "/tests/golden/"

static struct tamis_store *open_copy(const char *name)
{
    char command[2000];
    snprintf(command, sizeof command, "rm -rf %s/store && cp -r %s%s %s/", test_dir,
             GOLDEN, name, test_dir);
    OK(system(command));
    return store_open("store");
}

/* Returns how many keys were asked. */
static size_t check_answers(const char *name, size_t *n_absent)
{
    char path[1000];
    STORE store = open_copy(name);
    SNAPSHOT now = snapshot_of(store);
    struct tamis_domain domain = tamis_store_domain(store);
    snprintf(path, sizeof path, "%s%s.answers", GOLDEN, name);
    struct answers list = {.in = fopen(path, "r")};
    size_t n = 0;
    *n_absent = 0;
    assert_non_null(list.in);
    while (answers_next(&list)) {
        struct tamis_key k = tamis_key_of(&domain, list.key, list.key_bytes);
        struct tamis_target t = found_in(now, list.run.who);
        enum tamis_reason why;
        tamis_snapshot_probe(now, &t, &k, &why);
        assert_string_equal(tamis_reason_name(why),
                            list.absent ? "ABSENT" : list.run.maybe);
        *n_absent += why == TAMIS_NO_REASON;
        n++;
    }
    assert_false(list.malformed);
    fclose(list.in);
    return n;
}

TEST(test_answers)
{
    size_t n_absent;
    IS(check_answers("packs/store", &n_absent), 109 * 300);
    assert_true(n_absent > 109 * 200);
    IS(check_answers("store", &n_absent), 1200);
    assert_true(n_absent > 300);
}

TEST(test_records)
{
    STORE store = store_open("store");
    struct tamis_store_info info = store_info(store);
    IS(info.n_segments, 3);
    assert_true(info.complete);
    SNAPSHOT now = snapshot_of(store);
    struct tamis_segment_info s = segment_at(now, 2);
    IS(s.name_bytes, 6);
    assert_memory_equal(s.name, "sealed", 6);
    IS(s.rank, 3);
    IS(s.keys, 500);
    IS(s.binding_bytes, 2);
    assert_memory_equal(s.binding, "B1", 2);
    assert_memory_equal(s.first_key, "key-0\xc3\xa9", 7);
    assert_memory_equal(s.last_key, "key-9\xc3\xa9", 7);
}

RUN_TESTS(test_dir_create, test_dir_remove)
