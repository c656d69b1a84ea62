// Runs before viser's own script. The panel asks for fewer pixels from browsers that draw in software; they also get no
// antialiasing.
if (new URLSearchParams(location.search).has("fixedDpr")) {
  const plain = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return plain.call(this, kind, kind.startsWith("webgl") ? { ...options, antialias: false } : options);
  };
}
