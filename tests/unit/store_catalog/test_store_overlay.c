/* A store on an overlay: who opened it for reading before anybody wrote to it must see
 * the list change. LMDB's mapping of the lower layer's catalog never would. */
#include "tests/support/store_support.h"

#include "tests/support/unit/told_fs.h"

/* A catalog that can't be opened for writing is refused: here because the lower layer's
 * mount is read-only, as a container's volume may be. */
static int on_what_looks_like_an_overlay(void)
{
    struct tamis_store *s;
    struct tamis_diag diag;
    if (mount(path_of("s"), path_of("s"), NULL, MS_BIND, NULL) != 0 ||
        mount("none", path_of("s"), NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 77;
    tamis_store_close(store_open("s")); /* elsewhere that is enough */
    told_type = 0x794C7630;
    int rc = tamis_store_open(path_of("s"), NULL, &s, &diag);
    told_type = 0;
    if (rc != EROFS || !strstr(diag.what, "overlay"))
        return 1;
    return umount(path_of("s")) == 0 ? 0 : 77;
}

static int on_an_overlay(void)
{
    int go[2], ready[2], status;
    char byte = 0;
    if (!mount_overlay("s", "layer", "merged") || pipe(go) != 0 || pipe(ready) != 0)
        return 77;
    pid_t reader = fork();
    if (reader == 0) {
        struct tamis_store *r = store_open("merged");
        struct tamis_snapshot *first = snapshot_of(r);
        bool one = tamis_snapshot_info(first).n_segments == 1;
        tamis_snapshot_release(first);
        if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(9);
        struct tamis_snapshot *second = snapshot_of(r);
        bool two = tamis_snapshot_info(second).n_segments == 2;
        tamis_snapshot_release(second);
        tamis_store_close(r);
        _exit(!one ? 3 : !two ? 4 : 0);
    }
    if (read(ready[0], &byte, 1) != 1)
        return 5;
    struct tamis_store *w = store_open("merged");
    put_segment(w, "b", 10, 10);
    tamis_store_close(w);
    if (write(go[1], &byte, 1) != 1 || waitpid(reader, &status, 0) != reader)
        return 6;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 7;
}

static void in_a_namespace(int (*run)(void))
{
    struct tamis_store *s = store_new("s");
    put_segment(s, "a", 0, 10);
    tamis_store_close(s);
    in_own_mounts(run);
}

TEST_IN_DIR(a_catalog_that_cannot_be_copied_up_is_refused)
{
    in_a_namespace(on_what_looks_like_an_overlay);
}

TEST_IN_DIR(a_reader_sees_the_list_change)
{
    in_a_namespace(on_an_overlay);
}

RUN_TESTS(NULL, NULL)
