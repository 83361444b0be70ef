/* Shared by programs that break something: files as bytes, a directory that goes when
 * the program does, memory and processes, options. A failure here is the test's own
 * fault, and ends the process. */
#ifndef TAMIS_TESTS_HARNESS_H
#define TAMIS_TESTS_HARNESS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Allocated, with a byte to spare. */
uint8_t *file_bytes(const char *path, size_t *n);
void file_put(const char *path, const void *bytes, size_t n);
void file_poke(const char *path, uint64_t at, const void *bytes, size_t n);
void tree_remove(const char *path);
/* A new directory, in memory if it can be; NAME is the program's. */
enum { ROOT_BYTES = 200 };
void tree_root(char path[ROOT_BYTES], const char *name);

/* A tree of files, kept in memory and put back. */
struct saved_file {
    char name[100]; /* within it */
    uint8_t *bytes; /* NULL: a directory */
    size_t n;
    mode_t mode;
};
enum { MAX_SAVED = 128 };
struct saved_tree {
    struct saved_file files[MAX_SAVED];
    size_t n;
};
/* Forgets the files that *t had before. */
void tree_save(struct saved_tree *t, const char *path);
void tree_forget(struct saved_tree *t);
/* Other files that are there stay. */
void tree_put_back(const struct saved_tree *t, const char *path);
void file_put_back(const struct saved_file *f, const char *path);

/* Zeros, for all processes that are forked later. */
void *memory_shared(size_t n);
/* A process that ends with this one, and by SIGALRM after so many seconds; 0: never. */
pid_t process_start(unsigned seconds);
int process_end(pid_t pid); /* its status */
void process_silent(void);  /* no more on stderr */

/* "--name value" by a table that ends with a NULL. False: it has said how to use it. */
struct known_option {
    const char *name;
    uint64_t *number;
    const char **text;
    bool *flag; /* without a value */
};
bool options_read(int argc, char **argv, const struct known_option *known);

#endif
