/* One writer and one reader of a file, anew for each test, and at most a minute for it:
 * a probe that waits for ever ends there. */
#ifndef TAMIS_TESTS_PAIR_SUPPORT_H
#define TAMIS_TESTS_PAIR_SUPPORT_H

#include "one_file.h"

/* FIRST keys are in the first stage, and do not fill it. */
enum { N = 5000, FIRST = 400, SECONDS = 60 };

static uint64_t keys[N];
static struct tamis_writer *writer;
static struct tamis_filter *reader;

static UNUSED int pair_set_up(void **state)
{
    random_hashes(keys, N);
    return one_file_create(state);
}

static UNUSED int pair_open(void **state)
{
    if (faults_on(state)) /* no test waits for a disk */
        return -1;
    alarm(SECONDS);
    writer = fresh(500);
    add_hashes(writer, keys, FIRST);
    if (tamis_writer_commit(writer, 0, NULL) != 0)
        return -1;
    reader = open_filter(path);
    return count_absent(reader, keys, FIRST) == 0 ? 0 : -1;
}

static UNUSED int pair_close(void **state)
{
    alarm(0);
    tamis_filter_close(reader);
    tamis_writer_close(writer, NULL);
    return faults_off(state);
}

#define TEST_WITH_PAIR(name) TEST_WITH(pair_open, pair_close, name)

#endif
