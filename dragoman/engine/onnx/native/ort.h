/* What our operators need of ONNX Runtime's C API, and no more.

   The API is a table of functions whose order never changes: new versions add to its end. So each
   function that we call is named by its place, and neither headers nor a library of ONNX Runtime's
   are needed to compile this. */

#ifndef DRAGOMAN_ORT_H
#define DRAGOMAN_ORT_H

#include <stddef.h>
#include <stdint.h>

#define ORT_VERSION 17 /* of the API: the first with ParallelFor; ONNX Runtime 1.17 */

typedef struct Status Status;                 /* NULL: no error */
typedef struct SessionOptions SessionOptions;
typedef struct Domain Domain;                 /* a set of operators */
typedef struct Context Context;               /* of one call of an operator */
typedef struct Value Value;                   /* a tensor */
typedef struct Shape Shape;
typedef struct Info Info;

typedef void *const *Api;
typedef struct {
  Api (*get_api)(uint32_t version);
  const char *(*get_version)(void);
} ApiBase;

enum Kind { FLOAT = 1, UINT8 = 2, INT8 = 3, INT32 = 6, INT64 = 7 };
enum Presence { REQUIRED, OPTIONAL };
enum { FAILED = 1 }; /* a code of an error */

#define FUNCTION(place, result, ...) ((result(*)(__VA_ARGS__))api[place])
#define create_status FUNCTION(0, Status *, int, const char *)
#define create_domain FUNCTION(26, Status *, const char *, Domain **)
#define add_operator FUNCTION(27, Status *, Domain *, const struct Operator *)
#define add_domain FUNCTION(28, Status *, SessionOptions *, Domain *)
#define get_data FUNCTION(51, Status *, Value *, void **)
#define get_rank FUNCTION(61, Status *, const Shape *, size_t *)
#define get_dimensions FUNCTION(62, Status *, const Shape *, int64_t *, size_t)
#define get_shape FUNCTION(65, Status *, const Value *, Shape **)
#define get_input FUNCTION(90, Status *, const Context *, size_t, const Value **)
#define get_output FUNCTION(91, Status *, Context *, size_t, const int64_t *, size_t, Value **)
#define release_shape FUNCTION(99, void, Shape *)
#define parallel_for FUNCTION(274, Status *, const Context *, void (*)(void *, size_t), size_t, size_t, void *)

/* What ONNX Runtime asks of an operator (`OrtCustomOp`). */
struct Operator {
  uint32_t version;
  void *(*create)(const struct Operator *, Api, const Info *);
  const char *(*name_of)(const struct Operator *);
  const char *(*provider)(const struct Operator *);
  int (*input_kind)(const struct Operator *, size_t);
  size_t (*count_inputs)(const struct Operator *);
  int (*output_kind)(const struct Operator *, size_t);
  size_t (*count_outputs)(const struct Operator *);
  void (*compute_without_status)(void *, Context *);
  void (*destroy)(void *);
  int (*input_presence)(const struct Operator *, size_t);
  int (*output_presence)(const struct Operator *, size_t);
  int (*input_memory)(const struct Operator *, size_t);
  int (*variadic[4])(const struct Operator *); /* unused, as all that follow but `compute` */
  Status *(*create_with_status)(const struct Operator *, Api, const Info *, void **);
  Status *(*compute)(void *, Context *);
  void *unused[7];
  /* What follows is ours. */
  const char *name;
  size_t inputs, outputs;
  const unsigned char *kinds; /* of inputs, then of outputs */
  uint32_t optional;          /* a bit for each input that may be left out */
  Status *(*run)(Api, Context *);
};

#endif
