/* Shared by all tabs of a browser: one socket for them all. A tab that closes says so. */
import { Link } from "./link.js";

const links = new Map();

/** One link per signed-in person and project: another sign-in gets another socket. */
function linkFor(caller, address) {
  let found = links.get(caller);
  if (!found || found.link.isOver) {
    const ports = new Set();
    const link = new Link(address, (message) => ports.forEach((port) => port.postMessage(message)));
    found = { link, ports };
    links.set(caller, found);
    for (const [other, { link: old }] of links) {
      if (other === caller) continue;
      old.close();
      links.delete(other);
    }
  }
  return found;
}

self.onconnect = ({ ports: [port] }) => {
  let mine;
  const followed = [];
  port.onmessage = ({ data }) => {
    if (data.hello) {
      mine = linkFor(data.hello, data.address);
      mine.ports.add(port);
      followed.push([data.topic, data.view]);
      mine.link.follow(data.topic, data.view, data.since);
      port.postMessage({ link: mine.link.state });
    } else if (data.again) {
      followed.length = 0; // of a link that is over: the next hello makes another
    } else if (data.leave && mine) {
      const place = followed.findIndex(([topic, view]) => topic === data.topic && view === data.view);
      if (place >= 0) mine.link.leave(...followed.splice(place, 1)[0]);
    } else if (data.hurry) {
      mine?.link.hurry();
    } else if (data.bye && mine) {
      mine.ports.delete(port);
      for (const [topic, view] of followed.splice(0)) mine.link.leave(topic, view);
      mine = undefined;
    }
  };
  port.start();
};
