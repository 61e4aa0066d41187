// Reads the data of a page. How a column is coded is said in coding.py.
const $ = (id) => document.getElementById(id);

async function readData() {
  const text = atob($("data").textContent);
  const raw = new Uint8Array(text.length);
  for (let i = 0; i < raw.length; i++) raw[i] = text.charCodeAt(i);
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const facts = JSON.parse(new TextDecoder().decode(bytes.subarray(4, at)));
  const whole = {},
    columns = {};
  for (const [name, [length, planes, base, scale]] of Object.entries(facts.columns)) {
    const size = length * planes;
    if (scale) {
      const numbers = new Float64Array(length);
      for (let i = 0; i < length; i++) {
        let code = 0;
        for (let p = planes - 1; p >= 0; p--) code = code * 256 + bytes[at + p * length + i];
        numbers[i] = code % 2 ? -(code + 1) / 2 : code / 2;
      }
      if (base === "previous") {
        for (let i = 1; i < length; i++) numbers[i] += numbers[i - 1];
      } else {
        for (const term of base ? base.split(" ") : []) {
          const [sign, other] = term[0] === "-" ? [-1, whole[term.slice(1)]] : [1, whole[term]];
          for (let i = 0; i < length; i++) numbers[i] += sign * other[i];
        }
      }
      whole[name] = numbers;
      columns[name] = scale === 1 ? numbers : numbers.map((number) => number / scale);
    } else {
      const numbers = bytes.slice(at, at + size).buffer;
      columns[name] = planes === 4 ? new Float32Array(numbers) : new Float64Array(numbers);
    }
    at += size;
  }
  return [facts, columns];
}

let facts, columns;
try {
  [facts, columns] = await readData();
} catch (error) {
  $("trouble").textContent =
    `This browser cannot read the data of the page (${error}); ` + "browsers since 2023 can.";
  throw error;
}
