/* Lists of keys, as they are read. */
#ifndef TAMIS_KEYS_H
#define TAMIS_KEYS_H

#include <signal.h>
#include <stdbool.h>

#include "tamis.h"

enum key_format { KEYS_LINES, KEYS_NUL, KEYS_HEX, KEYS_BINARY };
enum { LINE_MAX_BYTES = 65536, BATCH_KEYS = 1024 };

struct key_reader;
/* "-" is standard input. Prints what is wrong and returns a status. Once *stop is not 0
 * (may be NULL), waiting for keys, or for the writer of a FIFO, ends: keys_next()
 * returns -1, with status 4 and no message. */
int keys_open(const char *path, enum key_format format,
              const volatile sig_atomic_t *stop, struct key_reader **out);
/* 1: a key, valid until the next call; 0: the end; -1: failed, and reported. */
int keys_next(struct key_reader *reader, const void **key, size_t *n_bytes);
int keys_status(const struct key_reader *reader); /* after -1 */
/* Is a key to come? 1, 0 or -1, as keys_next(), which returns this key next. */
int keys_any(struct key_reader *reader);
uint64_t keys_count(const struct key_reader *reader); /* that were handed out */
/* Refuses a list without keys unless --empty is given: the command that should write
 * the list may have failed. `why` says what would be wrong. */
int check_empty(const struct key_reader *reader, bool empty, const char *why);
uint64_t keys_position(const struct key_reader *reader);
uint64_t keys_size(const struct key_reader *reader); /* of a regular file, else 0 */
/* Reads keys into a builder, with progress, to the end or until it has more than
 * `most`; `file` is what the builder makes. */
int keys_into(struct tamis_builder *builder, struct key_reader *keys, uint64_t most,
              const char *file);
/* Reads lines that are not keys. */
int lines_open(const char *path, const char *what, struct key_reader **out);
void keys_close(struct key_reader *reader);

/* Up to BATCH_KEYS keys, valid until the next call, and their hashes. A batch ends
 * early rather than wait for input: a program can talk to `tamis probe --keys -`. */
struct key_batch {
    size_t n;
    struct tamis_key keys[BATCH_KEYS];
    uint64_t hashes[BATCH_KEYS];
};
int keys_batch(struct key_reader *reader, const struct tamis_domain *domain,
               struct key_batch *batch);

#endif
