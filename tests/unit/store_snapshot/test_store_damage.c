/* Files and records that are not what they should be: MAYBE. */
#include "tests/support/shop/shop.h"

#define TWO "put a 0 10; put b 10 10;"

TEST_OF_SCENES(wrong_files_are_maybe)
{
    static const struct scene_row rows[] = {
        {"exchanged, lost, damaged, cut", TWO "put c 20 10; put d 30 10; put e 40 10",
         "live swap a b; live lose c; live copy d =d; live poke d 100 255 255;"
         "live cut e 4096",
         "hash a 500 MISMATCH; hash b 500 MISMATCH; hash c 500 FILE_LOST;"
         "hash d 500 UNREADABLE; hash e 500 UNREADABLE; live copy =d d;"
         "hash d 500 UNREADABLE;" /* remembered, for this snapshot */
         "fails ENOENT filter c; told_file .tamis; filter d;" /* which looks again */
         "hash d 500 ABSENT"},
        /* They differ in nothing but their UUIDs and names. */
        {"exchanged empty growing files", "growing a; growing b", "live swap a b",
         "why a 5 MISMATCH; why b 5 MISMATCH; fails MISMATCH writer a"},
        {"other things under the name", TWO "put c 20 10",
         "live lose a; live mkdir a; live move b =b; live link b =b; live lose c;"
         "live fifo c",
         "hash a 5 UNREADABLE; hash b 15 UNREADABLE; hash c 25 UNREADABLE"},
        /* A good file of the right UUID, and yet not the one that the catalog has
           sealed. */
        {"another table under the UUID", "put a 0 10", "live other_digest a",
         "hash a 5 MISMATCH 500 MISMATCH"},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(unreadable_records_stay_listed)
{
    uint64_t absent;
    scene("a record of rubbish");
    steps(TWO "rubbish segments a; segments 2; why a 999 UNREADABLE;"
              "fails DAMAGED find a binding=b; fails DAMAGED writer a");
    SNAPSHOT snap = snapshot_of(opened());
    struct tamis_key key = key_in(shop.store, 999);
    IS(ASK(snap, ALL, KEYS(&key, 1), .absent = &absent), TAMIS_MAYBE);
    IS(absent, 1);
    struct tamis_segment_info info = segment_at(snap, 1);
    assert_true(info.name[0] == 'a' && info.state == 0 && info.binding == NULL);
}

/* Records that came to stand under another name. Key 15 is in "b", of which the list
 * then knows nothing: once the wrong one is gone, it is doubted until confirmed. */
TEST_OF_SCENES(records_under_another_name)
{
#define DOUBTED                                                                        \
    "segments 1; all 15 MAYBE; complete 0; close; complete 0; confirm; complete 1"
    static const struct scene_row rows[] = {
        {"a record lends its filter to no other name", "put a 0 10",
         "move_record a b stays=1", "hash b 999 UNREADABLE; hash a 999 ABSENT"},
        {"dropped, it leaves the list doubtful", TWO, "move_record b c; drop c",
         DOUBTED},
        {"an aborted edit changes nothing: it is still listed, as it is", TWO,
         "move_record b c; begin; drop c; abort; drop a", "complete 1"},
        /* It has a checksum, so its name is right. */
        {"a newer version's record leaves the list complete", "put a 0 10",
         "newer_record n; why n 5 UNREADABLE; drop n",
         "complete 1; why n 5 UNKNOWN_SEGMENT"},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(a_list_that_is_doubted_keeps_no_unknown_bits)
{
    scene("bits that may be ignored");
    steps(TWO "move_record b c; mark_meta compat; repair");
    struct meta m = meta_in("s");
    IS(m.complete, 0);
    assert_true(m.compat == 0);
}

static int mmap_errno;

static void *fail_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    errno = mmap_errno;
    return MAP_FAILED;
}

TEST_OF_SCENES(transient_failures_are_not_remembered)
{
    static const int code[] = {EAGAIN, EMFILE, ENFILE};
    scene("calls that fail for now");
    steps(TWO "hash b 999 ABSENT");
    struct io_calls saved = io_calls;
    io_calls.mmap = fail_mmap;
    for (size_t i = 0; i < 3; i++) {
        mmap_errno = code[i];
        steps("hash a 999 UNREADABLE; hash b 999 ABSENT"); /* mapped */
    }
    io_calls = saved;
    steps("hash a 999 ABSENT 5 HIT");
}

RUN_TESTS(NULL, NULL)
