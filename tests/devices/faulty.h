/* A file system of our own (FUSE) over a directory, of which a part of every file can
 * be made unreadable: reading it is EIO, and through a mapping SIGBUS. */
#ifndef TAMIS_TESTS_FAULTY_H
#define TAMIS_TESTS_FAULTY_H

#include <stdint.h>
#include <sys/types.h>

struct faulty {
    pid_t server;
    char mounted_at[600];
    struct faulty_shared *shared;
};

/* Mounts `backing` at `at`; both exist. 0, or -1 with a message on stderr. */
int faulty_mount(struct faulty *f, const char *backing, const char *at);
void faulty_unmount(struct faulty *f);
/* From now on no byte of [begin, end) can be read, of any file. What the kernel has
 * cached stays readable until the file is opened again. */
void faulty_break(struct faulty *f, uint64_t begin, uint64_t end);
void faulty_mend(struct faulty *f);
/* Reads that have failed. */
uint64_t faulty_failures(struct faulty *f);

#endif
