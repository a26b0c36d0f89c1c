// Episodes: the ones to look at first, and all of them with filters and search, drawn when they are asked for.
// What models and mails wrote is set as text and never as HTML. Filters stand in the address behind the #.
(function () {
  var ready = function () { document.documentElement.dataset.ready = "yes"; };
  var holder = document.getElementById("data");
  if (!holder) return ready();

  var PAGE = 50, WHOLE_GROUP = 8;
  var data = JSON.parse(holder.textContent);
  var texts = data.texts, episodes = data.episodes, sources = data.sources;
  var form = document.getElementById("filters"), list = document.getElementById("list");
  var lowered = [], textHits = null, query = "", found = [], page = 0;
  var showTokens = false;
  var knowsRight = episodes.some(function (episode) { return episode.correct !== null; });

  var byScenario = new Map();
  episodes.forEach(function (episode, index) {
    if (!byScenario.has(episode.scenario)) byScenario.set(episode.scenario, []);
    byScenario.get(episode.scenario).push(index);
  });

  function make(tag, name, text) {
    var element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  // ---- search and filters

  function low(index) {
    if (lowered[index] === undefined) lowered[index] = texts[index].toLowerCase();
    return lowered[index];
  }

  function search(wanted) {
    query = wanted.trim().toLowerCase();
    textHits = query ? texts.map(function (_, index) { return low(index).includes(query); }) : null;
  }

  function mentions(episode) {
    if (!textHits || episode.scenario.toLowerCase().includes(query)) return true;
    if (textHits[episode.question] || textHits[episode.explanation] || textHits[episode.error]) return true;
    return episode.blocks.some(function (block) { return textHits[block[2]] || textHits[block[1]]; });
  }

  function fits(episode, f) {
    if (f.outcome && episode.correct !== (f.outcome === "right")) return false;
    if (f.source && sources[episode.source].label !== f.source) return false;
    if (f.split && sources[episode.source].split !== f.split) return false;
    if (f.difficulty && episode.difficulty !== f.difficulty) return false;
    if (f.error === "any" && !episode.errors.length) return false;
    if (f.error === "none" && episode.errors.length) return false;
    if (f.error && f.error !== "any" && f.error !== "none" && !episode.errors.includes(f.error)) return false;
    if (f.low !== "" && !(episode.reward !== null && episode.reward >= Number(f.low))) return false;
    if (f.high !== "" && !(episode.reward !== null && episode.reward <= Number(f.high))) return false;
    return mentions(episode);
  }

  function filters() {
    return Object.fromEntries(new FormData(form));
  }

  function apply() {
    var f = filters();
    search(f.q);
    found = [];
    episodes.forEach(function (episode, index) { if (fits(episode, f)) found.push(index); });
    if (f.sort) {
      var sign = f.sort === "up" ? 1 : -1;
      found.sort(function (a, b) {
        var x = episodes[a].reward, y = episodes[b].reward;
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (x - y) || a - b;
      });
    }
    page = 0;
    drawList();
  }

  function remember() {
    var kept = new URLSearchParams();
    Object.entries(filters()).forEach(function (entry) { if (entry[1]) kept.set(entry[0], entry[1]); });
    history.replaceState(null, "", "#" + kept);
  }

  function recall() {
    var kept = new URLSearchParams(location.hash.slice(1));
    form.reset();
    kept.forEach(function (value, name) { if (form.elements[name]) form.elements[name].value = value; });
    apply();
    if (location.hash.length > 1) document.getElementById("episodes").scrollIntoView();
  }

  function offer(name, values) {
    var select = form.elements[name];
    values.forEach(function (value) { select.append(new Option(value.replace(/_/g, " "), value)); });
  }

  function distinct(values) {
    return Array.from(new Set(values)).filter(Boolean);
  }

  // ---- a transcript

  function write(element, text) {
    // the text, with what was searched for marked
    var from = 0, lower = text.toLowerCase();
    if (query && lower.length === text.length) {
      for (var at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, from)) {
        element.append(text.slice(from, at), make("mark", "", text.slice(at, at + query.length)));
        from = at + query.length;
      }
    }
    element.append(text.slice(from));
    return element;
  }

  function tokens(pieces) {
    var block = make("div", "block tokens mono");
    for (var i = 0; i < pieces.length; i += 2) {
      var p = Math.exp(pieces[i + 1]);
      var kind = p >= 0.9 ? "t0" : p >= 0.5 ? "t1" : p >= 0.2 ? "t2" : p >= 0.05 ? "t3" : "t4";
      var token = make("span", kind, pieces[i] || "∎");
      token.title = (100 * p).toPrecision(3) + " %, logprob " + pieces[i + 1];
      block.append(token);
    }
    return block;
  }

  function drawBlock(block) {
    var kind = block[0], title = texts[block[1]], body = texts[block[2]];
    if (kind === "observation" || kind === "model") {
      var folded = make("details", "block observation " + kind);
      folded.append(write(make("summary"), title), write(make("pre"), body));
      folded.open = unfolded || Boolean(textHits && textHits[block[2]]);
      return folded;
    }
    if (kind === "text") return write(make("div", "block text"), body);
    var element = make("div", "block mono " + kind);
    element.append(make("b", "", title), kind === "call" ? " " : "");
    return write(element, body);
  }

  function side(index, label, name) {
    var section = make("section", "side " + name);
    section.append(make("h3", "", label));
    var episode = episodes[index], chips = make("div", "chips"), coloured = {};
    episode.chips.forEach(function (chip) {
      var missing = chip[1] === "bad" && ["success", "found by search", "read"].includes(chip[0]);
      chips.append(make("span", "chip " + chip[1] + (missing ? " missing" : ""), chip[0]));
    });
    section.append(chips);
    if (episode.explanation !== undefined) {
      section.append(write(make("p", "judge", "Judge: "), texts[episode.explanation]));
    }
    episode.blocks.forEach(function (block) {
      var pieces = showTokens && episode.sampled && block[3] >= 0 ? episode.sampled[block[3]] : null;
      if (!pieces) section.append(drawBlock(block));
      else if (!coloured[block[3]]) section.append(tokens(pieces));
      coloured[block[3]] = true;
    });
    if (episode.error !== undefined) section.append(write(make("div", "block broken"), texts[episode.error]));
    if (!episode.blocks.length) section.append(make("p", "soft", episode.left_out ? "The page had no room for this transcript; it lies in the folder." : "Nothing was said."));
    return section;
  }

  function opening(episode) {
    var part = make("div");
    if (texts[episode.system]) {
      var system = make("details", "system");
      system.append(make("summary", "", "System message"), write(make("pre"), texts[episode.system]));
      part.append(system);
    }
    var asked = texts[episode.question];  // of several lines it may be a map, whose columns are to stand below each other
    part.append(write(make("p", asked.includes("\n") ? "question mono" : "question"), asked));
    return part;
  }

  // ---- the episodes to look at first

  function drawPairs() {
    var place = document.getElementById("pairs");
    if (!place) return;
    place.replaceChildren();
    data.pairs.forEach(function (pair) {
      var shown = episodes[pair.sides[1]], rose = pair.change > 0;
      var article = make("article", "card pair"), header = make("header"), sides = make("div", "sides");
      header.append(make("span", "chip bare " + (rose ? "good" : "bad"), (rose ? "Improved +" : "Got worse ") + pair.change.toFixed(2)));
      if (shown.difficulty) header.append(make("span", "chip", shown.difficulty));
      header.append(make("span", "soft mono", shown.scenario));
      pair.sides.forEach(function (index, number) {
        sides.append(side(index, sources[episodes[index].source].label, ["before", "after"][number]));
      });
      article.append(header, opening(shown), sides);
      place.append(article);
    });
  }

  // ---- the list

  function shownReward(value) {
    return value === null ? "–" : value.toFixed(2);
  }

  function beside(index) {
    // what stands side by side at first: the partner's episode of the same question, or the whole group
    var episode = episodes[index], partner = sources[episode.source].partner;
    var same = byScenario.get(episode.scenario);
    var other = same.filter(function (i) {
      var source = sources[episodes[i].source];
      var meant = source.label === partner || source.partner === sources[episode.source].label;
      return meant && episodes[i].sample === episode.sample;
    });
    var group = same.filter(function (i) { return episodes[i].source === episode.source; });
    var chosen = other.length ? other.concat(index) : group.length <= WHOLE_GROUP ? group : [index];
    return chosen.sort(function (a, b) { return a - b; });
  }

  function detail(index) {
    var part = make("div", "detail"), strip = make("div", "strip"), sides = make("div", "sides wide");
    var open = new Set(beside(index));
    var same = byScenario.get(episodes[index].scenario);
    var many = new Set(same.map(function (i) { return episodes[i].source; }));

    function draw() {
      sides.replaceChildren();
      same.forEach(function (i) {
        var sample = same.filter(function (j) { return episodes[j].source === episodes[i].source; }).length > 1;
        var label = sources[episodes[i].source].label + (sample ? ", sample " + episodes[i].sample : "");
        if (open.has(i)) sides.append(side(i, label, i === index ? "after" : ""));
      });
    }

    many.forEach(function (source) {
      var group = same.filter(function (i) { return episodes[i].source === source; });
      strip.append(make("span", "soft", sources[source].label));
      group.forEach(function (i) {
        var tone = episodes[i].correct === null ? "" : episodes[i].correct ? " good" : " bad";
        var button = make("button", "chip bare" + tone, shownReward(episodes[i].reward));
        button.type = "button";
        button.setAttribute("aria-pressed", String(open.has(i)));
        button.addEventListener("click", function () {
          if (!open.delete(i)) open.add(i);
          button.setAttribute("aria-pressed", String(open.has(i)));
          draw();
        });
        strip.append(button);
      });
    });
    part.append(opening(episodes[index]));
    if (same.length > 1) part.append(strip);
    part.append(sides);
    draw();
    return part;
  }

  function row(index) {
    var episode = episodes[index], article = make("article", "card row"), line = make("button", "head");
    var mark = episode.correct === null ? "·" : episode.correct ? "✓" : "✗";
    var tone = episode.correct === null ? "" : episode.correct ? "good" : "bad";
    line.type = "button";
    line.setAttribute("aria-expanded", "false");
    if (knowsRight) line.append(make("span", "sign " + tone, mark));
    line.append(
      make("span", "number", shownReward(episode.reward)),
      write(make("span", "ask"), texts[episode.question].split("\n")[0])
    );
    if (sources.length > 1) line.append(make("span", "tag", sources[episode.source].label));
    if (episode.difficulty) line.append(make("span", "tag", episode.difficulty));
    episode.errors.forEach(function (kind) { line.append(make("span", "tag bad", kind.replace(/_/g, " "))); });
    line.append(write(make("span", "soft mono"), episode.scenario));
    line.addEventListener("click", function () {
      var opened = line.getAttribute("aria-expanded") !== "true";
      line.setAttribute("aria-expanded", String(opened));
      if (opened) article.append(detail(index));
      else article.lastChild.remove();
    });
    article.append(line);
    return article;
  }

  function drawList() {
    var pages = document.getElementById("pages"), last = Math.max(Math.ceil(found.length / PAGE) - 1, 0);
    var first = page * PAGE, part = found.slice(first, first + PAGE);
    list.replaceChildren.apply(list, part.map(row));
    if (!found.length) list.append(make("p", "soft none", "No episode fits."));
    document.getElementById("count").textContent =
      (found.length < episodes.length ? found.length.toLocaleString("en") + " of " : "") +
      episodes.length.toLocaleString("en") + " episodes";
    pages.hidden = !last;
    pages.querySelector("span").textContent =
      first + 1 + " to " + (first + part.length) + " of " + found.length.toLocaleString("en");
    pages.querySelector("[data-page='-1']").disabled = page === 0;
    pages.querySelector("[data-page='1']").disabled = page === last;
    if (found.length === 1) list.querySelector(".head").click();
  }

  // ---- what is pressed

  var unfolded = false;
  document.querySelector("[data-unfold]").addEventListener("click", function (event) {
    unfolded = !unfolded;
    event.target.setAttribute("aria-pressed", String(unfolded));
    event.target.textContent = unfolded ? "Fold observations" : "Unfold observations";
    document.querySelectorAll(".observation").forEach(function (element) { element.open = unfolded; });
  });

  var colour = document.querySelector("[data-tokens]");
  colour.hidden = !episodes.some(function (episode) { return episode.sampled; });
  colour.addEventListener("click", function () {
    showTokens = !showTokens;
    colour.setAttribute("aria-pressed", String(showTokens));
    document.querySelector(".legend").hidden = !showTokens;
    drawPairs();
    list.querySelectorAll("[aria-expanded=true]").forEach(function (line) { line.click(); line.click(); });
  });

  document.querySelectorAll("[data-page]").forEach(function (button) {
    button.addEventListener("click", function () {
      page += Number(button.dataset.page);
      drawList();
      document.getElementById("episodes").scrollIntoView();
    });
  });

  form.addEventListener("submit", function (event) { event.preventDefault(); });
  form.addEventListener("input", function () { apply(); remember(); });
  form.addEventListener("reset", function () { setTimeout(function () { apply(); remember(); }); });
  window.addEventListener("hashchange", recall);

  offer("source", sources.map(function (source) { return source.label; }));
  offer("split", distinct(sources.map(function (source) { return source.split; })));
  offer("difficulty", distinct(episodes.map(function (episode) { return episode.difficulty; })));
  offer("error", distinct([].concat.apply([], episodes.map(function (episode) { return episode.errors; }))).sort());
  ["source", "split", "difficulty"].forEach(function (name) {
    form.elements[name].hidden = form.elements[name].options.length < 3;
  });
  form.elements.outcome.hidden = !knowsRight;
  drawPairs();
  recall();
  ready();
})();
