/* Codes and words: what public calls return, and what they say about it. */
#include "lib/error.h"
#include "format/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

const char *tamis_version(void)
{
    return TAMIS_VERSION;
}

const char *tamis_reason_name(enum tamis_reason reason)
{
    static const char *const names[] = {
        "ABSENT",    "HIT",    "DAMAGED",  "UNKNOWN_SEGMENT", "NO_FILTER",
        "FILE_LOST", "BEHIND", "MISMATCH", "UNREADABLE",
    };
    size_t i = (size_t)reason;
    return i < sizeof names / sizeof names[0] ? names[i] : "UNREADABLE";
}

static const char *own_error(int error)
{
    static const char *const words[] = {
        "not a tamis file",
        "written by a newer tamis",
        "damaged",
        "belongs to something else than expected",
        "no such segment",
        "no such store",
        "exists already",
        "in use by another thread or process",
        "sealed: it accepts no more keys",
        "a sync failed or a page was lost; close, reopen, replay from the watermark",
        "opened before fork(), of no use in the child",
        "argument out of range",
        "too large for one filter",
        "on a network file system, where tamis does not write, nor read open filters",
        "the store is open for reading only",
        "the catalog failed",
        "these filters cannot be combined so",
        "its files were replaced while it was open; close it, open it again",
        "another thread has the writer to itself, or this one is amid an add",
    };
    size_t i = (size_t)(-(long)error - 1);
    return i < sizeof words / sizeof words[0] ? words[i] : "unknown error";
}

const char *tamis_strerror(int error)
{
    if (error == 0)
        return "success";
    if (error < 0)
        return own_error(error);
    /* glibc's description without the buffer and locale of strerror(). */
    const char *text = strerrordesc_np(error);
    return text ? text : "unknown errno";
}

int verdict_error(enum verdict_code code)
{
    switch (code) {
    case VERDICT_OK:
        return 0;
    case VERDICT_MAGIC:
        return TAMIS_ERR_NOT_TAMIS;
    case VERDICT_DRAFT:
    case VERDICT_VERSION:
    case VERDICT_FLAGS:
    case VERDICT_KIND:
        return TAMIS_ERR_VERSION;
    case VERDICT_SHORT:
    case VERDICT_CHECKSUM:
    case VERDICT_UNUSED:
    case VERDICT_RANGE:
    case VERDICT_OVERLAP:
    case VERDICT_IDENTITY:
        break;
    }
    return TAMIS_ERR_DAMAGED;
}

void diag_clear(struct tamis_diag *diag)
{
    if (diag)
        memset(diag, 0, sizeof *diag);
}

/* The end of a path says more than its beginning. */
static void set_file(struct tamis_diag *diag, const char *file)
{
    size_t n = file ? strlen(file) : 0, room = sizeof diag->file - 1;
    if (n <= room)
        snprintf(diag->file, sizeof diag->file, "%s", file ? file : "");
    else
        snprintf(diag->file, sizeof diag->file, "...%s", file + n - (room - 3));
}

int diag_fail(struct tamis_diag *diag, int code, const char *file, const char *format,
              ...)
{
    if (!diag)
        return code;
    memset(diag, 0, sizeof *diag);
    diag->code = code;
    diag->os_errno = code > 0 ? code : 0;
    set_file(diag, file);
    va_list args;
    va_start(args, format);
    vsnprintf(diag->what, sizeof diag->what, format, args);
    va_end(args);
    return code;
}

int diag_errno(struct tamis_diag *diag, int os_errno, const char *file,
               const char *doing)
{
    return diag_fail(diag, os_errno, file, "%s: %s", doing, tamis_strerror(os_errno));
}

int diag_own(struct tamis_diag *diag, int code, const char *file)
{
    return diag_fail(diag, code, file, "%s", tamis_strerror(code));
}

int diag_made(struct tamis_diag *diag, int err, const char *file, const char *doing)
{
    err = err == EEXIST ? TAMIS_ERR_EXISTS : err;
    return err < 0 ? diag_own(diag, err, file) : diag_errno(diag, err, file, doing);
}

int diag_open(struct tamis_diag *diag, int os_errno, const char *file,
              const char *doing)
{
    /* The kernel's words for these say nothing of what is in the way. */
    if (os_errno == EINVAL || os_errno == ENXIO)
        return diag_fail(diag, os_errno, file, "%s: not a regular file", doing);
    if (os_errno == ELOOP)
        return diag_fail(diag, os_errno, file, "%s: a symbolic link, not followed",
                         doing);
    return diag_errno(diag, os_errno, file, doing);
}

int diag_verdict(struct tamis_diag *diag, struct verdict v, const char *file,
                 uint64_t record_offset)
{
    int code = diag_fail(diag, verdict_error(v.code), file, "%s: %s", v.field,
                         verdict_text(v.code));
    diag_at(diag, record_offset + v.offset);
    return code;
}

void diag_in(struct tamis_diag *diag, const char *file)
{
    if (diag)
        set_file(diag, file);
}

void diag_at(struct tamis_diag *diag, uint64_t offset)
{
    if (!diag)
        return;
    diag->offset = offset;
    diag->has_offset = 1;
}

int options_copy(void *ours, size_t ours_bytes, const void *theirs)
{
    size_t size;
    memset(ours, 0, ours_bytes);
    if (!theirs)
        return 0;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size)
        return TAMIS_ERR_RANGE;
    /* A newer caller's extra fields must be zero: we could not honour them. */
    if (size > ours_bytes) {
        if (!all_zero((const uint8_t *)theirs + ours_bytes, size - ours_bytes))
            return TAMIS_ERR_RANGE;
        size = ours_bytes;
    }
    memcpy(ours, theirs, size);
    return 0;
}

enum tamis_reason reason_of_error(int code)
{
    if (code == ENOENT)
        return TAMIS_FILE_LOST;
    return code == TAMIS_ERR_MISMATCH ? TAMIS_MISMATCH : TAMIS_UNREADABLE;
}

const char *name_text(char text[NAME_TEXT_BYTES], const void *name, size_t n_bytes)
{
    const uint8_t *b = name;
    size_t at = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        if (at + 8 > NAME_TEXT_BYTES) {
            memcpy(text + at, "...", 3);
            at += 3;
            break;
        }
        if (b[i] >= ' ' && b[i] < 0x7f && b[i] != '\\')
            text[at++] = (char)b[i];
        else
            at += (size_t)snprintf(text + at, NAME_TEXT_BYTES - at, "\\x%02x", b[i]);
    }
    text[at] = 0;
    return text;
}
