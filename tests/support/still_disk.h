/* LMDB's syncs do nothing in a program that includes this: what it looks at is the page
 * cache, and disks are slow. Or fdatasync is what lmdb_fdatasync does. */
#ifndef TAMIS_TESTS_STILL_DISK_H
#define TAMIS_TESTS_STILL_DISK_H

static int (*lmdb_fdatasync)(int fd);

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return lmdb_fdatasync ? lmdb_fdatasync(fd) : 0;
}

int fsync(int fd)
{
    return 0;
}

#endif
