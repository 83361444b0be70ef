/* Attaching files, sweeping orphans, and a catalog that grows. */
#include "tests/support/shop/shop.h"

TEST_OF_SCENES(attaching)
{
    static const struct scene_row rows[] = {
        {"a sealed file is copied", "put a 500 10; build =f",
         "fails EXISTS attach a =f; attach a =f replace=1",
         "fails EXISTS attach b =f; told this very filter; lose =f; hits a 0 100;"
         "why a 200 ABSENT; files 1"},
        {"what does not belong is refused",
         "build =seed seed=7; build =named name=x binding=bind; build =store uuid=9",
         "fails MISMATCH attach a =seed; told another seed; fails MISMATCH attach a "
         "=named;"
         "told another segment; fails MISMATCH attach x =named binding=bond;"
         "told binding differs; fails MISMATCH attach a =store; told another store;"
         "fails ENOENT attach a =none; fails EISDIR attach a =.; files 0",
         "attach x =named; find x binding=bind watermark=7"},
        {"growing and damaged ones are refused", "growing_file =g; add 0 1; write 1",
         "fails RANGE attach a =g; told seal it; seal 2; end; build =f;"
         "poke =f 4173 255 255 255; fails DAMAGED attach f =f; cut =f 4096;"
         "fails DAMAGED attach f =f; text =f hello; fails NOT_TAMIS attach f =f; files "
         "0",
         "attach g =g; has g 0 1"},
        /* A copy put back, in one edit with the drop of the record of its UUID. */
        {"a lost file is restored", "build =f; attach a =f", "lose a",
         "fails EXISTS attach b =f; told another segment; files 0;"
         "attach a =f replace=1; files 1; close; why a 50 HIT 500 ABSENT"},
        /* Attach under a new name what is lost under the old one, drop the old. */
        {"attach, then drop keeps the file", "build =f; attach old =f", "live lose old",
         "begin; attach new =f; drop old; commit; files 1; why new 999999 ABSENT"},
        /* It is found again by the next snapshot. */
        {"a file attached again is not lost", "build =f; attach x =f",
         "live lose x; why x 999999 FILE_LOST",
         "begin; drop x; attach x =f; commit; why x 999999 ABSENT"},
    };
    PLAY_ROWS(rows);
}

TEST_OF_SCENES(sweeping)
{
    play("the first edit sweeps orphans, and no strangers",
         "put a 0 10; text filters/0123456789abcdef0123456789abcdef.tamis x;"
         "text filters/0123456789abcdef0123456789abcdef.tamis.89abcdef.tmp x;"
         "text filters/README x; text filters/0123456789ABCDEF0123456789abcdef.tamis x;"
         "text filters/0123456789abcdef0123456789abcdef.tamis.old x;"
         "text filters/x.89abcdef.tmp x; files 7; begin; abort; files 5; why a 5 HIT");
    play("not while a record is unreadable: it may be its own",
         "put a 0 10; rubbish segments a; begin; abort; files 1; drop a; close; begin; "
         "abort;"
         "files 0");
}

TEST_IN_DIR(map_grows_when_full)
{
    char name[32];
    STORE s = store_new("s");
    OK(mdb_env_set_mapsize(s->catalog->env, 1 << 17));
    struct tamis_snapshot *before = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "segment-%d", i);
        OK(tamis_edit_put_bare(e, name, strlen(name), NULL, NULL));
    }
    OK(tamis_edit_drop(e, "segment-7", 9, NULL, NULL));
    OK(tamis_edit_commit(e, NULL));
    struct tamis_store_info info = store_info(s);
    IS(info.n_segments, 4999);
    assert_true(info.catalog_bytes > 1 << 17);
    IS(tamis_snapshot_info(before).n_segments, 0);
    tamis_snapshot_release(before);
    IS(reason_of(s, "segment-6", 1), TAMIS_NO_FILTER);
    IS(reason_of(s, "segment-7", 1), TAMIS_UNKNOWN_SEGMENT);
}

/* Cut anywhere, the catalog is refused or good, and never SIGBUS. Here its last page
 * is in use; a file longer than its last page is the usual case. */
TEST_IN_DIR(truncated_catalogs_are_refused)
{
    char name[200];
    size_t n, n_good = 0;
    struct tamis_store *s = store_new("s");
    for (int round = 0; round < 3; round++) {
        struct tamis_edit *e = edit_new(s);
        for (int i = 0; i < 300; i++) {
            memset(name, 'n', sizeof name);
            int rc = snprintf(name, sizeof name, "%d", (int)random_below(1000));
            name[rc] = 'n';
            tamis_edit_put_bare(e, name, sizeof name, NULL, NULL);
        }
        OK(tamis_edit_commit(e, NULL));
    }
    tamis_store_close(s);
    free(file_read(path_of("s/catalog.lmdb"), &n));
    for (size_t cut = n; cut + 1 > 4096; cut -= 4096) {
        struct tamis_diag diag;
        OK(truncate(path_of("s/catalog.lmdb"), (off_t)cut));
        int rc = tamis_store_open(path_of("s"), NULL, &s, &diag);
        if (rc == 0) {
            tamis_snapshot_release(snapshot_of(s));
            tamis_store_close(s);
        }
        n_good += rc == 0;
        assert_true(rc == 0 || rc == TAMIS_ERR_DAMAGED || rc == TAMIS_ERR_NOT_TAMIS);
    }
    assert_true(n_good >= 1 && n_good < 10);
}

RUN_TESTS(NULL, NULL)
