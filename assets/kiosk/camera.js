// A photo from the camera, where the browser has one for us: on this machine itself, or over HTTPS.
const LONGEST_SIDE = 1280;
const QUALITY = 0.9;

export class Camera {
  static get isOffered() {
    return Boolean(navigator.mediaDevices?.getUserMedia);
  }

  constructor(video) {
    this.video = video;
    this.stream = null;
    this.opening = 0; // whoever asks later, or closes, wins
  }

  // Resolves to false where it was closed before the camera was there.
  async open() {
    this.close();
    const mine = this.opening;
    const stream = await navigator.mediaDevices.getUserMedia({
      video: { facingMode: "environment", width: { ideal: LONGEST_SIDE } },
    });
    if (mine !== this.opening) {
      stream.getTracks().forEach((track) => track.stop());
      return false;
    }
    this.stream = stream;
    this.video.srcObject = stream;
    await this.video.play();
    return true;
  }

  shoot() {
    const { videoWidth, videoHeight } = this.video;
    const scale = Math.min(1, LONGEST_SIDE / Math.max(videoWidth, videoHeight));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(videoWidth * scale);
    canvas.height = Math.round(videoHeight * scale);
    canvas.getContext("2d").drawImage(this.video, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", QUALITY));
  }

  close() {
    this.opening += 1;
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.video.srcObject = null;
  }
}
