// Recordings from a file or the microphone. The browser decodes them; the server gets a WAVE file.
import { element, post_form } from "/web/api.js";

const sample_rate = 16000;
let recorder = null;

// 16-bit mono.
function wave_file(samples) {
  const bytes = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, word) => [...word].forEach((c, i) => bytes.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  bytes.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  bytes.setUint32(16, 16, true);
  bytes.setUint16(20, 1, true);
  bytes.setUint16(22, 1, true);
  bytes.setUint32(24, sample_rate, true);
  bytes.setUint32(28, 2 * sample_rate, true);
  bytes.setUint16(32, 2, true);
  bytes.setUint16(34, 16, true);
  text(36, "data");
  bytes.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => bytes.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([bytes], { type: "audio/wav" });
}

async function decoded(blob) {
  const audio = new OfflineAudioContext(1, 1, sample_rate);
  const buffer = await audio.decodeAudioData(await blob.arrayBuffer());
  const mixed = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; ++channel) {
    buffer.getChannelData(channel).forEach((sample, i) => { mixed[i] += sample / buffer.numberOfChannels; });
  }
  return wave_file(mixed);
}

async function transcribe(blob) {
  const facts = element("transcribe-facts");
  facts.textContent = "transcribing…";
  try {
    const form = new FormData();
    form.append("model", element("transcribe-model").value);
    form.append("response_format", "verbose_json");
    form.append("file", await decoded(blob), "recording.wav");
    const language = element("transcribe-language").value.trim();
    if (language) form.append("language", language);
    const start = performance.now();
    const answer = await post_form("/v1/audio/transcriptions", form);
    element("transcribe-answer").textContent = answer.text;
    const seconds = (performance.now() - start) / 1000;
    facts.textContent = `${answer.duration?.toFixed(1) ?? "?"} s of sound in ${seconds.toFixed(1)} s${answer.language ? `, ${answer.language}` : ""}`;
  } catch (error) {
    facts.textContent = error.message;
  }
}

async function record() {
  const button = element("transcribe-record");
  if (recorder) return recorder.stop();
  try {
    const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
    const parts = [];
    recorder = new MediaRecorder(microphone);
    recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
    recorder.addEventListener("stop", () => {
      microphone.getTracks().forEach((track) => track.stop());
      recorder = null;
      button.textContent = "Record";
      button.setAttribute("aria-pressed", "false");
      transcribe(new Blob(parts));
    });
    recorder.start();
    button.textContent = "Stop and transcribe";
    button.setAttribute("aria-pressed", "true");
  } catch (error) {
    element("transcribe-facts").textContent = `the microphone cannot be used: ${error.message}`;
  }
}

export function start_transcribe() {
  element("transcribe-record").addEventListener("click", record);
  element("transcribe-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [file] = element("transcribe-file").files;
    if (file) transcribe(file);
    else element("transcribe-facts").textContent = "choose a file first";
  });
}
