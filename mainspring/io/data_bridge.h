/* The C side of bridge/'s data feature: Parquet files as lines of JSON, objects of remote stores as
 * bytes. Only a build with -DMS_DATA=ON has these; mainspring/data/ is their only user.
 *
 * The one idea, rules of results and of ownership: bridge.h. Here a handle is used by one call at a
 * time. bridge/src/data/ is the other side; the two change together.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "mainspring/io/bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MsParquetFile MsParquetFile;
typedef struct MsParquetRows MsParquetRows;
typedef struct MsObjectStream MsObjectStream;

/* Reads the footer of the file at `path`. */
MsParquetFile* ms_parquet_open(MsSlice path);
void ms_parquet_free(MsParquetFile* file);
/* {"columns": [{"name", "type"}], "groups": [{"rows", "begin"}], "codecs": ["ZSTD"]} */
int ms_parquet_describe(const MsParquetFile* file, MsText* out);
/* The rows of groups [first, end) with these columns of the root; none named: with all. The file
 * may be freed before. */
MsParquetRows* ms_parquet_rows(const MsParquetFile* file, size_t first_group, size_t end_group,
                               const MsSlice* columns, size_t num_columns);
void ms_parquet_rows_free(MsParquetRows* rows);
/* Whole rows, a line of JSON each, at least min_bytes together unless the rows end; empty after the
 * last. A null field is left out. Errors begin with "row <number in the file, from 1>: ". */
int ms_parquet_next(MsParquetRows* rows, size_t min_bytes, MsText* out);

typedef struct MsFetchLimits {
  uint32_t retries;       /* of a request that gets no answer or one that asks to come again */
  uint32_t first_wait_ms; /* before the first of them; then about twice as long each time */
  uint32_t timeout_ms;    /* of a connection, an answer, and between two parts of a body */
} MsFetchLimits;

typedef struct MsObjectInfo {
  uint64_t size;  /* of the whole object */
  uint64_t begin; /* of this stream in it */
  int64_t modified_ns;
  MsText etag; /* empty if the store names no versions; free it */
} MsObjectInfo;

/* Why a call on an object failed. */
enum {
  MS_OBJECT_OTHER = 0,
  MS_OBJECT_NOT_FOUND = 1,
  MS_OBJECT_DENIED = 2,
  MS_OBJECT_CHANGED = 3,  /* is not the version asked for */
  MS_OBJECT_BROKEN = 4,   /* broke off or stalled: open another stream from there */
  MS_OBJECT_NO_RANGE = 5, /* the server cannot begin in the middle */
};

/* The bytes of the object at `url` from `begin` on; `same_as`: the etag it must have, empty: any.
 * Credentials come from the environment's standard variables; without them nothing is signed. */
MsObjectStream* ms_object_open(MsSlice url, uint64_t begin, MsSlice same_as,
                               const MsFetchLimits* limits, MsObjectInfo* info, int* kind);
/* The next bytes; empty after the last. */
int ms_object_read(MsObjectStream* stream, MsText* out, int* kind);
void ms_object_free(MsObjectStream* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif
