// Changes to text that is shown.

/** Remove the common indentation of lines. */
export function dedented(text) {
  const lines = text.replace(/\s+$/, "").split("\n");
  const margin = Math.min(...lines.filter((line) => line.trim()).map((line) => /^[ \t]*/.exec(line)[0].length));
  return lines.map((line) => line.slice(Number.isFinite(margin) ? margin : 0)).join("\n");
}
