/* Search in pages that are opened as files: a browser starts no worker from them, so the worker's script
   runs in a hidden frame. The name is the one by which the theme knows that such a stand-in is there. */
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.isReady = new Promise((resolve) => {
        const load = (source) =>
          new Promise((done) => {
            const script = inside.document.createElement("script");
            script.src = source;
            script.onload = done;
            inside.document.body.append(script);
          });
        inside.document.open();
        inside.document.write("<!doctype html><body></body>");
        inside.document.close();
        inside.postMessage = answer;
        inside.importScripts = (...sources) =>
          sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
        load(url).then(resolve);
      });
    }

    postMessage(data) {
      this.isReady.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
