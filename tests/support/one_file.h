/* For tests of a single filter: its path, and a new writer of it as often as needed. */
#ifndef TAMIS_TESTS_ONE_FILE_H
#define TAMIS_TESTS_ONE_FILE_H

#include "filters.h"

static char path[1024];

static UNUSED int one_file_create(void **state)
{
    int err = test_dir_create(state);
    memcpy(path, path_of("filter"), sizeof path);
    return err;
}

/* Removes an older file first. */
static UNUSED struct tamis_writer *fresh(uint64_t first_capacity)
{
    unlink(path);
    return create_writer(path, 0.01, 2, first_capacity);
}

#endif
