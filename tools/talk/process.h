/* Startup of each of our programs: `tamis`, tamis-leveldb, tamis-rocksdb. */
#ifndef TAMIS_TOOLS_PROCESS_H
#define TAMIS_TOOLS_PROCESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* `name` is the program's, printed before each message. */
void process_begin(const char *name);

#ifdef __cplusplus
}
#endif

#endif
