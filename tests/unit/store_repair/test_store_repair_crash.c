/* Repair after a crash: what a dead writer left is finished, and files that no record
 * names are swept or kept. */
#include "tests/support/shop/shop.h"

TEST_OF_SCENES(what_a_crash_leaves)
{
    static const char grown[] = "growing g; grow g 0 50 1",
                      four[] = "put a 0 10; put b 10 10",
                      junk[] = "filters/0123456789abcdef0123456789abcdef.tamis";
    static const struct scene_row rows[] = {
        {"what a dead writer left is finished", grown, "kill 50; file g clean=0",
         "repair; says finished g; is done=1; file g clean=1 watermark=9; has g 0 150;"
         "why g 99999 ABSENT; settled"},
        /* By somebody who had the file and not the catalog. */
        {"growth and seals are followed", "growing g",
         "behind g; add 0 1000; write 5; end; record g stages=1",
         "repair; says grown, and the catalog did not know; is done=1; settled;"
         "behind g; seal 6; end; repair; says sealed, and the catalog did not know;"
         "is done=1; record g state=3; has g 0 1000; settled"},
        /* An orphan whose unlink was lost may be wanted: nobody can tell. */
        {"what nothing names is swept, or kept", four,
         "copy b =b; call orphan b; drop b; copy =b orphan; text filters/README x;"
         "text filters/00112233445566778899aabbccddeeff.tamis.0123abcd.tmp x;"
         "text catalog.lmdb.0123abcd.tmp x",
         "repair; says quarantined  filters/; there aside:orphan filters/README;"
         "is swept=2 done=3 damaged=0; says noted  filters/README;"
         "gone orphan filters/00112233445566778899aabbccddeeff.tamis.0123abcd.tmp"
         " catalog.lmdb.0123abcd.tmp; settled"},
        /* While it can't be read, its store is unknown. */
        {"orphans of another store are kept", "put a 0 100", "stranger x 0 100",
         "unreadable stranger; repair; unreadable; is done=0; there stranger;"
         "repair; is quarantined=1; there aside:stranger; gone stranger; settled"},
    };
    PLAY_ROWS(rows);
    /* A torn slot, of a growing and of a sealed filter. */
    for (int slot = 1; slot <= 2; slot++)
        for (int sealed = 0; sealed < 2; sealed++)
            play("a torn slot is mirrored",
                 "%s; writer g; %s; end; flip g %d; repair; is finished=1 done=1;"
                 "has g 0 50; why g 99999 ABSENT; settled",
                 grown, sealed ? "seal 2" : "add 0 0", slot * PAGE_BYTES + 700);
    /* An older catalog was put back: what it does not name may be all that there is of
     * a segment. Only what never was a filter goes. */
    static const struct {
        const char *name, *poke;
        bool kept;
    } orphans[] = {{"a newer version", "8 2", true},
                   {"a name that rotted", "130 0", true},
                   {"a UUID that rotted", "40 77", true},
                   {"no filter", "1 88", false}};
    for (size_t i = 0; i < N_OF(orphans); i++) {
        bool kept = orphans[i].kept;
        play(orphans[i].name,
             "put a 0 10; copy a %s; call it %s; poke it %s; repair;"
             "is quarantined=%d swept=%d; gone it; %s aside:it; settled",
             junk, junk, orphans[i].poke, kept, !kept, kept ? "there" : "gone");
    }
}

static bool dies;

/* LMDB's, too, which has committed when it has written one of the first two pages, and
 * then tells the others through its lock file. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *buf, size_t n,
                                                      off_t at)
{
    char link[64], path[1024] = "";
    ssize_t put = syscall(SYS_pwrite64, fd, buf, n, at);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (dies && at < 2 * PAGE_BYTES && readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, "/catalog.lmdb"))
        _exit(0);
    return put;
}

static int die_committing(void *ctx)
{
    struct tamis_store *s = store_open("s");
    dies = true;
    put_segment(s, "b", 100, 100);
    return 1;
}

/* Its file is named, though no reader of another process knows of it. */
TEST_OF_SCENES(a_commit_that_nobody_was_told_of_counts)
{
    const struct tamis_repair_options hurry = {.size = sizeof hurry, .timeout_ms = -1};
    for (int dry = 1; dry >= 0; dry--) {
        scene("a commit that nobody was told of");
        steps("put a 0 100");
        in_child(die_committing, NULL);
        /* The next one has its turn, and has not told either. */
        int next = open(path_at("catalog.lmdb-lock"), O_RDWR | O_CLOEXEC);
        OK(io_lock(next, LOCK_COMMIT));
        IS(tamis_store_repair(path_of("s"), &hurry, NULL, NULL), TAMIS_ERR_BUSY);
        io_unlock(next, LOCK_COMMIT);
        steps("live repair %s; is done=0 seen=0; has b 100 100; close",
              dry ? "dry" : "");
        close(next); /* with it go LMDB's locks */
    }
}

RUN_TESTS(NULL, NULL)
