/* A directory of the test's own, which goes with it, and paths in it. */
#ifndef TAMIS_TESTS_UNIT_DIR_H
#define TAMIS_TESTS_UNIT_DIR_H

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

/* One for all objects of a program. */
#define SHARED __attribute__((weak))

SHARED char test_dir[512];

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    return remove(path);
}

static UNUSED int test_dir_remove(void **state)
{
    return nftw(test_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static UNUSED int test_dir_create(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(test_dir, sizeof test_dir, "%s/tamis-test.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(test_dir) ? 0 : -1;
}

#define TEST_IN_DIR(name) TEST_WITH(test_dir_create, test_dir_remove, name)

/* A path in the test's directory: the same pointer for the same path, as long as a test
 * has no more than these. */
static UNUSED const char *path_of(const char *name)
{
    static char paths[256][1024];
    static unsigned next;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", test_dir, name);
    for (unsigned i = 0; i < N_OF(paths); i++)
        if (strcmp(paths[i], path) == 0)
            return paths[i];
    return memcpy(paths[next++ % N_OF(paths)], path, sizeof path);
}

#endif
