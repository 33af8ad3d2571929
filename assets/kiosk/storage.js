// The kiosk stores nothing in the browser. Whatever is there all the same goes with the visitor.
// A database that something still holds open is erased as soon as it lets go: nobody waits for that.
const erase = (name) =>
  new Promise((resolve) => {
    const request = indexedDB.deleteDatabase(name);
    request.onsuccess = request.onerror = request.onblocked = resolve;
  });

export const clearStorage = async () => {
  localStorage.clear();
  sessionStorage.clear();
  for (const cookie of document.cookie.split("; ").filter(Boolean)) {
    document.cookie = `${cookie.split("=")[0]}=; path=/; max-age=0`;
  }
  const databases = (await indexedDB.databases?.()) ?? [];
  await Promise.all(databases.map(({ name }) => erase(name)));
  // Only there on this machine itself or over HTTPS.
  const names = (await globalThis.caches?.keys()) ?? [];
  await Promise.all(names.map((name) => caches.delete(name)));
};
