/* The header of an open file, on a private copy (R6), and the identity in it as callers
 * give it (struct tamis_identity): checked, written, and compared. */
#ifndef TAMIS_FILTER_HEADER_H
#define TAMIS_FILTER_HEADER_H

#include "format/commit.h"
#include "format/identity.h"
#include "lib/error.h"

enum { HEADER_MAX_BYTES = 3 * PAGE_BYTES };

struct header {
    struct identity identity;
    struct commit commit;
    struct slot_health health;
    /* Slot A's sequence and checksum, bytes as found, for readers to compare. */
    uint64_t raw_sequence_a, raw_checksum_a;
    uint64_t available; /* bytes of the file that are the filter's */
};

/* Reads and validates the header on a private copy (R6). Retries, a bounded number of
 * times, while a commit is being written. n_bytes 0: to the end of the file. `ours`:
 * may set the descriptor's read-ahead. */
int header_load(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                struct header *h, struct tamis_diag *diag);
/* The same, and the bytes. */
int header_load_raw(int fd, bool ours, uint64_t offset, uint64_t n_bytes,
                    const char *path, uint8_t raw[HEADER_MAX_BYTES], struct header *h,
                    struct tamis_diag *diag);
/* The raw bytes alone, at most HEADER_MAX_BYTES; sets h->available. */
int header_read(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                uint8_t *raw, size_t *got, struct header *h, struct tamis_diag *diag);
/* Decodes a copy of the header. The caller sets h->available. `offset`, where the copy
 * came from, is for messages. */
int header_decode(const uint8_t *raw, size_t got, uint64_t offset, const char *path,
                  struct header *h, struct tamis_diag *diag);
/* Lower bounds of a filter, as noted earlier (R5). */
struct bounds {
    uint64_t sequence, generation, watermark;
    uint32_t n_stages;
};
/* Is this an older copy, put back? The sequence alone does not tell: a writer that
 * recovers the copy leaps over the noted number (R3). */
bool commit_is_older(const struct commit *c, const struct bounds *known);
/* Are both slots whole, with the same record? */
bool header_is_mirrored(const struct header *h);
/* Sealed in both slots? Then slot A's record is durable (R1). Before that a power cut
 * may undo the seal, so slot A is still watched. */
bool header_sealed_for_good(const struct header *h);
/* ERR_VERSION for a feature that this version must not write (ro_compat). */
int header_check_features(const struct header *h, const char *path,
                          struct tamis_diag *diag);
void header_info(const struct identity *id, const struct commit *c,
                 struct tamis_filter_info *info);

/* Begins the header of a new file, sealed at birth and of no stage yet. `who` NULL: for
 * no segment. `uuid` NULL: the caller sets it in both. */
void header_begin(uint16_t kind, const struct tamis_domain *domain,
                  const struct tamis_identity *who, const uint8_t *uuid,
                  struct identity *id, struct commit *c);

/* Writes the header at the start of the file: the record in each of its slots. */
int header_write(int fd, const struct identity *id, const struct commit *c);

/* ---- the identity as callers give it ---- */
/* ERR_RANGE unless name and binding have legal lengths; without a pointer 0. */
int identity_check(const struct tamis_identity *of, struct tamis_diag *diag);
void identity_write(const struct tamis_identity *of, struct identity *id,
                    struct commit *c);
/* NULL if the header has this identity; else how it differs. A NULL part fits any. */
const char *identity_differs(const struct tamis_identity *of, const struct identity *id,
                             const struct commit *c);

#endif
