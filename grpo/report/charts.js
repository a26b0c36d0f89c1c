"use strict";
// Values under the pointer. The charts read well without this script.
(function () {
  var tip = document.getElementById("tip");

  document.querySelectorAll("svg.chart").forEach(function (svg) {
    var points = JSON.parse(svg.dataset.points);
    var cursor = svg.querySelector(".cursor");

    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect();
      var x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      var best = 0;
      points.x.forEach(function (value, index) {
        if (Math.abs(value - x) < Math.abs(points.x[best] - x)) best = index;
      });
      cursor.setAttribute("x1", points.x[best]);
      cursor.setAttribute("x2", points.x[best]);
      cursor.classList.add("on");
      var lines = points.labels.map(function (label, index) {
        return label + ": " + points.rows[best][index];
      });
      tip.textContent = ["step " + points.step[best]].concat(lines).join("\n");
      tip.hidden = false;
      var right = event.clientX + 14 + tip.offsetWidth > window.innerWidth;
      tip.style.left = event.pageX + (right ? -14 - tip.offsetWidth : 14) + "px";
      tip.style.top = event.pageY + 14 + "px";
    });

    svg.addEventListener("pointerleave", function () {
      cursor.classList.remove("on");
      tip.hidden = true;
    });
  });
})();
