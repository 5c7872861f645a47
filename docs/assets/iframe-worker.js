"use strict";
// From disk, a browser starts no worker, and the theme's search runs in one. Here a hidden frame
// takes the worker's place: it loads the same script, and messages pass both ways as events.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      // Firefox loads a frame that nothing was written to once more, and forgets the script.
      this.inside.document.open();
      this.inside.document.write("<!doctype html><title>search</title>");
      this.inside.document.close();
      const answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.postMessage = (data) => setTimeout(answer, 0, data);
      const script = this.inside.document.createElement("script");
      this.loaded = new Promise((done) => (script.onload = done));
      script.src = address;
      this.inside.document.documentElement.append(script);
    }
    async postMessage(data) {
      await this.loaded;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
