
/* The data that a library exports as FERRY_PLUGIN. Texts are UTF-8, truncated if they are too long, and padded
 * with zeros. */
typedef struct {
  uint8_t magic[16];
  uint32_t size;
  uint32_t major;
  uint32_t minor_built;  /* the revision of this header */
  uint32_t minor_needed; /* the minimum revision that the host must have */
  uint32_t flags;        /* 0 for libraries in C */
  uint8_t name[64];
  uint8_t version[32];
  uint8_t sdk[32];
  int32_t (*init)(FerryHost host, FerryRegistrar registrar, FerryErrorSink err);
} FerryManifest;

#define FERRY_MAGIC {'f', 'e', 'r', 'r', 'y', ' ', 'p', 'l', 'u', 'g', 'i', 'n', 0, 0, 0, 2}
#define FERRY_MAJOR 1
#define FERRY_MINOR 0

/* Returns whether an object offers the function in a slot. */
#define FERRY_HAS(object, slot) \
  ((object).table->size >= (size_t)((const char *)(&(object).table->slot + 1) - (const char *)(object).table) && \
   (object).table->slot)

#ifdef __cplusplus
}
#endif
#endif
