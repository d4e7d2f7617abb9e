// An echo server on Node's net module: node echo.js HOST PORT
'use strict';
const net = require('net');

const server = net.createServer({ noDelay: true }, (socket) => {
  // A plain write beats pipe(), which adds bookkeeping for each chunk. A full
  // socket stops the reading until it has drained.
  socket.on('data', (chunk) => {
    if (!socket.write(chunk)) socket.pause();
  });
  socket.on('drain', () => socket.resume());
  socket.on('error', () => socket.destroy());
});
server.listen({ host: process.argv[2], port: Number(process.argv[3]), backlog: 4096 }, () => {
  const { address, port } = server.address();
  console.log(`listening on ${address}:${port}`);
});
