"use strict";
// Logs in with the token behind "#" in the link that the server prints. Browsers do not send that part of an address.

(() => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search); // keep it out of the history
  document.getElementById("token").value = token;
  document.querySelector("main form").requestSubmit();
})();
