"use strict";
// A translator in the browser: SentencePiece, ONNX Runtime's WASM and greedy search. `MODEL` is what
// `dragoman convert to-web` wrote: settings, pieces, and the weights in base64.

const WORD_START = "\u2581";

function bytesOf(base64) {
  const text = atob(base64),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// Byte-pair encoding as SentencePiece does it: the pair whose piece was learned first, which has the
// lowest id, is joined first, the leftmost of equals. What no piece spells becomes its bytes.
class Pieces {
  constructor({ pieces, special, unknown }) {
    this.pieces = pieces;
    this.unknown = unknown;
    this.all = new Map(pieces.map((piece, i) => [piece, i]));
    this.ids = new Map(this.all); // of text: no tags, no bytes
    for (const id of special) this.ids.delete(pieces[id]);
    this.kept = new Map();
  }

  // NFKC, no control characters, single spaces, one at the beginning.
  normalised(text) {
    return text
      .normalize("NFKC")
      .replace(/[\u0000-\u0008\u000b\u000e-\u001f\u007f\u008f\u009f]/g, "")
      .replace(/[\u200b-\u200f\u2028\u2029\ufeff\ufffd]/g, " ")
      .replace(/\s+/g, " ")
      .trim();
  }

  encode(text) {
    const clean = this.normalised(text);
    if (!clean) return [];
    return clean.split(" ").flatMap((word) => this.word(WORD_START + word));
  }

  word(word) {
    if (!this.kept.has(word)) this.kept.set(word, this.spelled(this.merged([...word])));
    return this.kept.get(word);
  }

  merged(parts) {
    for (;;) {
      let best = -1,
        lowest = Infinity;
      for (let i = 0; i + 1 < parts.length; i++) {
        const id = this.ids.get(parts[i] + parts[i + 1]);
        if (id < lowest) {
          best = i;
          lowest = id;
        }
      }
      if (best < 0) return parts;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
    }
  }

  spelled(parts) {
    return parts.flatMap((part) => {
      const id = this.ids.get(part);
      if (id !== undefined) return [id];
      const bytes = [...new TextEncoder().encode(part)].map((byte) =>
        this.all.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
      );
      return bytes.includes(undefined) ? [this.unknown] : bytes;
    });
  }

  decode(ids) {
    const bytes = [],
      encoder = new TextEncoder();
    for (const id of ids) {
      const byte = /^<0x([0-9A-F]{2})>$/.exec(this.pieces[id]);
      if (byte) bytes.push(parseInt(byte[1], 16));
      else bytes.push(...encoder.encode(this.pieces[id].replaceAll(WORD_START, " ")));
    }
    return new TextDecoder().decode(new Uint8Array(bytes)).replace(/^ /, "");
  }
}

const int64 = (values, shape = [values.length]) =>
  new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);
const int32 = (values, shape = [values.length]) => new ort.Tensor("int32", Int32Array.from(values), shape);
const float = (values, shape) => new ort.Tensor("float32", values, shape);

// Positions first .. first + count - 1, sines and cosines in turn, or rows of a learned table.
function positions(model, side, first, count) {
  const { width, base } = model;
  if (model[side]) return model[side].subarray(first * width, (first + count) * width);
  const table = new Float32Array(count * width);
  for (let t = 0; t < count; t++)
    for (let i = 0; i < width / 2; i++) {
      const angle = (first + t) / base ** ((2 * i) / width);
      table[t * width + 2 * i] = Math.sin(angle);
      table[t * width + 2 * i + 1] = Math.cos(angle);
    }
  return table;
}

class WebTranslator {
  // Sessions for both graphs. What ONNX Runtime loads comes from the page's own scripts, so that a
  // page from disk asks nobody for anything.
  static async load(data) {
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmBinary = bytesOf(data.runtime.wasm).buffer;
    const script = new Blob([bytesOf(data.runtime.mjs)], { type: "text/javascript" });
    ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(script) };
    const weights = bytesOf(data.weights);
    const externalData = data.index.map(({ name, offset, length }) => ({
      path: name,
      data: weights.subarray(offset, offset + length),
    }));
    const options = { executionProviders: ["wasm"], externalData, graphOptimizationLevel: "basic" };
    const made = new WebTranslator(data);
    made.encoder = await ort.InferenceSession.create(bytesOf(data.encoder), options);
    made.decoder = await ort.InferenceSession.create(bytesOf(data.step), options);
    return made;
  }

  constructor(data) {
    this.model = data.model;
    for (const side of ["source", "target"])
      if (data.positions[side])
        this.model[side] = new Float32Array(bytesOf(data.positions[side]).buffer);
    this.source = new Pieces(data.source);
    this.target = data.target ? new Pieces(data.target) : this.source;
  }

  // The ids of a source: perhaps a tag of the target language, its pieces, the end.
  sourceIds(text, to) {
    const { tags, end } = this.model;
    return [...(to in tags ? [tags[to]] : []), ...this.source.encode(text), end];
  }

  // Greedy search: the ids of the translation, without its end. `tell` hears of each piece.
  async search(ids, tell = () => {}) {
    const { width, heads, layers, start, targetEnd, ratio, extra } = this.model,
      n = ids.length,
      features = width / heads,
      places = [...ids.keys()];
    const memory = await this.encoder.run({
      ids: int64(ids),
      positions: float(positions(this.model, "source", 0, n), [n, width]),
      columns: int64(places),
      places: int64(places),
      tokens: int64(places, [1, n]),
      mask: float(new Float32Array(n * n), [1, 1, n, n]),
      memory_tokens: int64(places, [1, n]),
    });
    const most = Math.floor(ratio * n + extra),
      shape = [1, heads, most + 1, features];
    let caches = {};
    for (let i = 0; i < layers; i++)
      for (const name of ["k", "v"])
        caches[`${name}_${i}`] = float(new Float32Array((most + 1) * width), shape);
    const said = [];
    let token = start;
    while (said.length < most) {
      const at = said.length;
      const feeds = {
        tokens: int64([token]),
        position: float(positions(this.model, "target", at, 1).slice(), [1, width]),
        past: int32([at]),
        total: int32([at + 1], []),
        k: int64([1]),
        mask: float(new Float32Array(n), [1, 1, 1, n]),
        by_sentence: int64([1, 1, heads, features]),
      };
      for (const [name, cache] of Object.entries(caches)) {
        feeds[`cache_${name}`] = cache;
        feeds[`memory_${name}`] = memory[`memory_${name}`];
      }
      const wanted = ["best_tokens", "best_log_probs", ...Object.keys(caches).map((name) => `longer_${name}`)];
      const found = await this.decoder.run(feeds, wanted);
      for (const name of Object.keys(caches)) caches[name] = found[`longer_${name}`];
      token = Number(found.best_tokens.data[0]);
      if (token === targetEnd) break;
      said.push(token);
      tell(said, found.best_log_probs.data[0]);
    }
    return said;
  }

  async translate(text, to, tell = () => {}) {
    if (!text.trim()) return "";
    const said = await this.search(this.sourceIds(text, to), (ids) => tell(this.target.decode(ids)));
    return this.target.decode(said);
  }
}
