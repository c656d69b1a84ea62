// Our panels around viser's 3D view. The server sends messages of several kinds as JSON; the panel sends {do, value}.
"use strict";

const $ = (id) => document.getElementById(id);
const isPhone = () => matchMedia("(max-width: 820px)").matches;
const shown = { state: "choosing", menus: null, layout: null, drone: null, path: [], unknown: new Set(), readAs: new Map(), sent: null, waiting: null, isNew: true };
let socket = null;

// One visit for each tab; a reloaded tab finds its visit again.
function visitorKey() {
  let key = sessionStorage.getItem("pvn-visitor");
  if (!key) {
    key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("pvn-visitor", key);
  }
  return key;
}

function socketAddress(path) {
  const address = new URL(path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  address.search = `?visitor=${visitorKey()}`;
  return address.href;
}

function drawsInSoftware() {
  const context = document.createElement("canvas").getContext("webgl2");
  const info = context && context.getExtension("WEBGL_debug_renderer_info");
  const renderer = info ? context.getParameter(info.UNMASKED_RENDERER_WEBGL) : "";
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|software/i.test(renderer);
}

function openView() {
  const resolution = drawsInSoftware() ? "&fixedDpr=0.6" : "";
  $("viewer").src = `viewer?websocket=${encodeURIComponent(socketAddress("."))}${resolution}`;
}

// A flight that is asked for while there is no connection begins as soon as there is one.
function say(what, value = null) {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ do: what, value }));
  else if (what === "fly") shown.waiting = value;
}

function notice(title, text) {
  $("notice").hidden = !title;
  $("notice").querySelector("h2").textContent = title || "";
  $("notice").querySelector("p").textContent = text || "";
}

function connect() {
  socket = new WebSocket(socketAddress("panel"));
  socket.onopen = () => {
    socket.send(JSON.stringify({ link: location.search.slice(1) }));
    if (shown.waiting !== null) say("fly", shown.waiting);
    shown.waiting = null;
    openView();
  };
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.kind in show) show[message.kind](message);
  };
  socket.onclose = (event) => {
    document.body.classList.remove("ready");
    if (event.code === 4001) return notice("This visit goes on in another tab", "Reload this page to bring it back here.");
    if (event.code === 4002) return notice("The demo is full", `${event.reason[0].toUpperCase()}${event.reason.slice(1)}; more would slow down everyone's flights. Please reload this page in a few minutes.`);
    notice("No connection", "Trying to reach the demo again. If it is still running, nothing is lost.");
    setTimeout(connect, 1500);
  };
}

function options(select, labels, values = labels) {
  select.replaceChildren(...labels.map((label, place) => new Option(label, values[place])));
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function setPicture(image, source) {
  if (source) image.src = source;
  else image.removeAttribute("src");
}

function markUnknown() {
  const text = $("instruction").value;
  const unknown = new Set(), readAs = new Set();
  const parts = text.split(/([\p{L}\p{N}]+)/u).map((part) => {
    const word = part.normalize("NFKC").toLowerCase(), term = shown.readAs.get(word);
    if (shown.unknown.has(word)) unknown.add(`“${part}”`);
    else if (term) readAs.add(`“${part}” is read as “${term}”`);
    else return part;
    return element("u", { className: term ? "read" : "" }, part);
  });
  $("marks").replaceChildren(...parts, "\u200b");
  $("marks").scrollTop = $("instruction").scrollTop;
  $("unknown").textContent = unknown.size ? `${[...unknown].join(", ")}: not ${unknown.size > 1 ? "words" : "a word"} the pilot knows` : "";
  $("read-as").textContent = [...readAs].join(", ");
}

// A reload keeps what is being typed, as long as the address is the same.
function keepDraft() {
  sessionStorage.setItem("pvn-draft", JSON.stringify([location.search, $("instruction").value]));
}

function keptDraft() {
  const [about, text] = JSON.parse(sessionStorage.getItem("pvn-draft") || "[null, null]");
  return about === location.search ? text : null;
}

function fillBox(text) {
  $("instruction").value = text;
  keepDraft();
  say("typed", text);
  markUnknown();
}

// Landmarks, the flown path, the drone and the goal, over every map; metres, north up.
function drawOverlays() {
  const { menus, layout, drone } = shown;
  if (!menus || !layout || !drone) return;
  const low = menus.south_west, extent = menus.extent, north = low + extent;
  for (const svg of document.querySelectorAll(".map svg")) {
    const parts = [];
    for (const { x, y, radius } of layout.landmarks) parts.push(drawn("circle", { cx: x, cy: north - y, r: radius, class: "outline" }));
    for (const { text, x, y } of layout.names) parts.push(drawn("text", { x, y: north - y }, text));
    const path = shown.path.map(([x, y]) => `${x},${north - y}`).join(" ");
    parts.push(drawn("polyline", { points: path, fill: "none", stroke: menus.colours.flown, "stroke-width": 0.5 }));
    if (drone.goal) {
      const [x, y] = drone.goal;
      parts.push(drawn("circle", { cx: x, cy: north - y, r: menus.success_m, fill: "none", stroke: menus.colours.goal, "stroke-width": 0.35 }));
    }
    const [x, y, yaw] = drone.pose;
    const arrow = drawn("path", { d: "M1.9 0 -1.1 1.1 -.5 0 -1.1 -1.1Z", fill: "#fff", stroke: "#000", "stroke-width": 0.25 });
    arrow.setAttribute("transform", `translate(${x} ${north - y}) rotate(${(-yaw * 180) / Math.PI})`);
    parts.push(arrow);
    svg.setAttribute("viewBox", `${low} 0 ${extent} ${extent}`);
    svg.replaceChildren(...parts);
  }
}

function drawChart(svg, seconds, values, top, colour) {
  const width = 300, height = 74, left = 24, bottom = 16;
  const last = Math.max(seconds.at(-1) || 0, 2);
  const across = (second) => left + (second / last) * (width - left - 14);
  const up = (value) => height - bottom - (Math.min(value, top) / top) * (height - bottom - 6);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const parts = [];
  for (const value of [0, top / 2, top]) {
    parts.push(drawn("line", { x1: left, x2: width - 14, y1: up(value), y2: up(value), stroke: "#dde3dd" }));
    parts.push(drawn("text", { x: left - 4, y: up(value) + 3, "font-size": 9, fill: "#5c665e", "text-anchor": "end" }, value));
  }
  const every = last > 20 ? 10 : last > 8 ? 5 : 1;
  for (let second = 0; second <= last; second += every)
    parts.push(drawn("text", { x: across(second), y: height - 4, "font-size": 9, fill: "#5c665e", "text-anchor": "middle" }, `${second} s`));
  const points = seconds.map((second, place) => (values[place] === null ? null : `${across(second)},${up(values[place])}`)).filter(Boolean);
  if (points.length) parts.push(drawn("polyline", { points: points.join(" "), fill: "none", stroke: colour, "stroke-width": 2 }));
  else parts.push(drawn("text", { x: width / 2, y: 36, "font-size": 11, fill: "#5c665e", "text-anchor": "middle" }, "this pilot has none"));
  svg.replaceChildren(...parts);
}

const show = {
  menus(message) {
    shown.menus = message;
    options($("pilot"), message.pilots);
    options($("speed"), message.speeds);
    options($("new-landmark"), message.landmarks);
    $("corpus").hidden = !message.has_corpus;
    $("field-number").max = message.max_field;
    $("instruction").maxLength = message.max_characters;
    const colours = message.colours, blob = (colour) => `radial-gradient(${colour}, transparent 70%)`;
    const samples = [
      [`width:20px;height:13px;background:${blob(colours.trajectory)}`, "predicted path"],
      [`width:20px;height:13px;background:${blob(colours.goal)}`, "predicted goal"],
      [`width:24px;border-top:3px solid ${colours.flown}`, "flown"],
      [`width:22px;border-top:3px dashed ${colours.demonstrated}`, "demonstrated"],
      [`width:16px;height:9px;border:2px solid ${colours.goal};border-radius:50%`, `${message.success_m} m around the goal`],
      [`width:16px;height:9px;border:2px solid ${colours.touched};border-radius:50%`, "flown through or brushed"],
    ];
    $("legend").replaceChildren(...samples.map(([style, label]) => element("span", {}, element("i", {}, Object.assign(element("b"), { style })), label)));
    notice("");
  },
  setup(message) {
    $("pilot").value = message.pilot;
    const shorten = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
    options($("segment"), message.segments.map((text, place) => `${place + 1}. ${shorten(text)}`), message.segments.map((_, place) => place));
    $("segment").value = message.segment;
    if (message.field !== null) $("field-number").value = message.field;
    if (message.segment_id) $("segment-id").value = message.segment_id;
    $("restore").disabled = !message.is_edited;
  },
  layout(message) {
    shown.layout = message;
    setPicture($("field-picture"), message.picture);
    options($("old-landmark"), message.landmarks.map(({ noun }) => noun), message.landmarks.map((_, place) => place));
    drawOverlays();
  },
  drone(message) {
    shown.drone = message;
    shown.path = message.path;
    drawOverlays();
  },
  box(message) {
    fillBox((shown.isNew ? keptDraft() : null) ?? message.text);
    shown.isNew = false;
  },
  examples(message) {
    $("examples").replaceChildren(...message.examples.map((text) => element("button", { textContent: text, onclick: () => fly(text) })));
  },
  state(message) {
    const before = shown.state;
    shown.state = message.state;
    const isFlying = message.state === "flying";
    $("fly").hidden = isFlying;
    $("stop").hidden = $("line-stop").hidden = !isFlying;
    for (const id of ["again", "pilot", "segment", "go-field", "random-field", "go-segment", "random-segment", "add", "remove"]) $(id).disabled = isFlying;
    for (const button of $("examples").children) button.disabled = isFlying;
    $("replay").hidden = message.state !== "replaying";
    $("step").max = Math.max(message.num_positions - 1, 1);
    if (message.state === "choosing") document.body.classList.add("unflown");
    if (isFlying && shown.sent !== null && $("instruction").value.trim() === shown.sent) fillBox("");
    if (isFlying) shown.sent = null;
    if (isFlying && before !== "flying" && isPhone()) {
      fold(true);
      say("camera", "follow");
    }
    if (!isFlying && before === "flying") fold(false);
    listPages();
  },
  sees(message) {
    setPicture($("camera-image"), message.image);
    setPicture($("predictions"), message.predictions);
    setPicture($("semantic"), message.maps && message.maps[0]);
    setPicture($("grounding"), message.maps && message.maps[1]);
    document.body.classList.toggle("unflown", message.is_start);
    document.body.classList.toggle("mapless", !message.maps);
    $("no-maps").hidden = Boolean(message.maps);
    listPages();
  },
  step(message) {
    $("step").max = Math.max(message.num_positions - 1, 1);
    if (message.moves_slider) $("step").value = message.index;
    $("step-number").value = message.index;
    drawChart($("stop-chart"), message.seconds, message.stops, 1, shown.menus.colours.stop);
    drawChart($("speed-chart"), message.seconds, message.speeds, 3, shown.menus.colours.speed);
    shown.path = message.path;
    shown.drone = { ...shown.drone, pose: message.pose };
    drawOverlays();
  },
  flights(message) {
    const rows = message.flights.map((flight, place) =>
      element("li", { className: place === message.shown ? "shown" : "" },
        element("span", { className: "said", textContent: flight.said }),
        element("button", { textContent: "▶", title: "Show this flight again", ariaLabel: `Show flight ${place + 1} again`, onclick: () => say("replay", place) }),
        element("span", { className: flight.has_touched ? "words touched" : "words", textContent: flight.words })));
    $("flights").replaceChildren(...rows);
    $("flights").scrollTop = $("flights").scrollHeight;
  },
  unknown(message) {
    shown.unknown = new Set(message.words);
    shown.readAs = new Map(Object.entries(message.read_as));
    markUnknown();
  },
  status(message) {
    $("status").textContent = $("line-status").textContent = message.text;
  },
  warning(message) {
    $("warning").textContent = message.text;
    if (message.text) {
      $("line-status").textContent = message.text;
      fold(false);
    }
  },
  command(message) {
    $("command").textContent = message.command;
    $("needs-file").hidden = !message.needs_file;
    history.replaceState(null, "", `?${message.link}`);
    keepDraft();
    $("link").textContent = location.href;
  },
  speed(message) {
    $("speed").value = message.name;
  },
  names(message) {
    $("names").checked = message.is_shown;
  },
  camera(message) {
    for (const button of $("cameras").children) button.ariaPressed = button.dataset.camera === message.mode;
  },
  view() {
    document.body.classList.add("ready");
  },
  file(message) {
    const bytes = Uint8Array.from(atob(message.content), (letter) => letter.charCodeAt(0));
    const address = URL.createObjectURL(new Blob([bytes]));
    element("a", { href: address, download: message.name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  },
};

function fly(text) {
  shown.sent = text.trim();
  say("fly", text);
  $("instruction").blur();
}

function fold(isFolded) {
  document.body.classList.toggle("folded", isFolded && isPhone());
  $("fold").textContent = isFolded ? "▴" : "▾";
}

// On a phone the panel has pages, with a tab for each; a swipe turns them.
function listPages() {
  const pages = [...document.querySelectorAll("#sheet [data-page]")].filter((page) => getComputedStyle(page).display !== "none");
  if ([...$("pages").children].map((tab) => tab.textContent).join() !== pages.map((page) => page.dataset.page).join()) {
    $("pages").replaceChildren(...pages.map((page) => element("button", { textContent: page.dataset.page, onclick: () => page.scrollIntoView({ behavior: "smooth", block: "nearest" }) })));
    $("sheet").scrollLeft = 0;
  }
  const at = Math.round($("sheet").scrollLeft / Math.max($("sheet").clientWidth, 1));
  [...$("pages").children].forEach((tab, place) => { tab.ariaCurrent = place === at; });
}

// Browsers give a page access to the clipboard only from this computer or over https; otherwise it selects the text.
function copy(button) {
  const code = $(button.dataset.of), label = button.dataset.label || (button.dataset.label = button.textContent);
  const tell = (text) => {
    button.textContent = text;
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  const select = () => {
    getSelection().selectAllChildren(code);
    tell(document.execCommand("copy") ? "Copied" : "Press Ctrl+C");
  };
  if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => tell("Copied"), select);
  else select();
}

$("instruction").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  fly($("instruction").value);
});
let typing = 0;
$("instruction").addEventListener("input", () => {
  markUnknown();
  keepDraft();
  clearTimeout(typing);
  typing = setTimeout(() => say("typed", $("instruction").value), 120);
});
$("instruction").addEventListener("scroll", markUnknown);
$("fly").onclick = () => fly($("instruction").value);
$("stop").onclick = $("line-stop").onclick = () => say("stop");
$("again").onclick = () => say("start again");
$("play").onclick = () => say("replay");
$("step").oninput = () => { $("step-number").value = $("step").value; say("step", Number($("step").value)); };
$("pilot").onchange = () => say("pilot", $("pilot").value);
$("segment").onchange = () => say("segment", Number($("segment").value));
$("go-field").onclick = () => say("field", Math.floor(Number($("field-number").value)));
$("field-number").onkeydown = (event) => { if (event.key === "Enter") $("go-field").click(); };
$("random-field").onclick = () => say("field");
$("go-segment").onclick = () => say("corpus segment", $("segment-id").value);
$("random-segment").onclick = () => say("corpus segment");
$("add").onclick = () => say("add", $("new-landmark").value);
$("remove").onclick = () => say("remove", Number($("old-landmark").value));
$("restore").onclick = () => say("restore");
$("save-field").onclick = () => say("save field");
for (const button of $("save-flight").children) button.onclick = () => say("save flight", button.dataset.suffix);
for (const button of $("cameras").children) button.onclick = () => say("camera", button.dataset.camera);
$("speed").onchange = () => say("speed", $("speed").value);
$("names").onchange = () => say("names", $("names").checked);
for (const button of document.querySelectorAll("button.copy")) button.onclick = () => copy(button);
$("fold").onclick = () => fold(!document.body.classList.contains("folded"));
$("sheet").addEventListener("scroll", listPages, { passive: true });
addEventListener("resize", () => { if (!isPhone()) fold(false); listPages(); });

document.body.classList.add("unflown");
connect();
