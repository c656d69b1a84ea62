// Before viser's own script: a browser without a graphics card draws in software, and is given less to draw.
(() => {
  const probe = document.createElement("canvas").getContext("webgl2");
  const info = probe && probe.getExtension("WEBGL_debug_renderer_info");
  const renderer = info ? probe.getParameter(info.UNMASKED_RENDERER_WEBGL).toLowerCase() : "";
  if (probe) probe.getExtension("WEBGL_lose_context")?.loseContext();
  if (!/swiftshader|llvmpipe|softpipe|software/.test(renderer)) return;
  const plain = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return plain.call(this, kind, kind.startsWith("webgl") ? { ...options, antialias: false } : options);
  };
})();
